"""Networks, each of features and a head, and how a user names one.

The factories draw weights from torch's random state, like any module; `build_model` draws them from a seed instead.
Batch norm needs more than one value a channel: in training, `cnn8`, `cnn_mnist` and `mlp` refuse a batch of one sample.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from antidote_learn._checks import check_number


class Network(nn.Module):
    """head(features(x)): ``features`` gives (B, F), ``head`` is linear and gives the logits (B, classes)."""

    def __init__(self, features: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) or (B, D) to logits (B, classes)."""
        logits: Tensor = self.head(self.features(x))
        return logits


def features_and_head(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The two parts of a network, with head(features(x)) = model(x).

    Of a module that is not a `Network` nothing is known: its features are its logits, and its head does nothing.
    """
    return (model.features, model.head) if isinstance(model, Network) else (model, nn.Identity())


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)), (B, C, H, W) to (B, C', H', W')."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Add, then activate."""
        return torch.relu(self.body(x) + self.shortcut(x))


class PreActivated(nn.Module):
    """body(a) + x with a = relu(norm(x)); where the shape changes, body(a) + shortcut(a)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(*_norm_relu(inputs))
        self.body = nn.Sequential(_conv(inputs, width, stride=stride), *_norm_relu(width), _conv(width, width))
        self.shortcut = _conv(inputs, width, 1, stride) if stride > 1 or inputs != width else None

    def forward(self, x: Tensor) -> Tensor:
        """Activate, then add."""
        a = self.activation(x)
        result: Tensor = self.body(a) + (x if self.shortcut is None else self.shortcut(a))
        return result


def cnn8(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 32, width: float = 1.0) -> Network:
    """The paper's CIFAR-10 network: six convolutions (64, 64, 128, 128, 196, 196), two linear layers, batch norm.

    Args:
        classes: Number of classes.
        channels: Of the images.
        size: Height and width of the images (one number where they are equal), at least 8.
        width: Factor on all hidden widths, which are rounded to whole numbers.
    """
    check_number("width", width, 0, open_end=True)
    a, b, c, hidden = (max(1, round(width * n)) for n in (64, 128, 196, 256))
    widths = [channels, a, a, b, b, c, c]
    layers: list[nn.Module] = []
    for i in range(6):
        layers += [_conv(widths[i], widths[i + 1], bias=True), *_norm_relu(widths[i + 1])]
        layers += [nn.MaxPool2d(2)] if i % 2 else []
    return _initialised(_convolutional(layers, c * _pooled(size, 3), hidden, classes))


def cnn_mnist(classes: int, *, channels: int = 1, size: int | tuple[int, int] = 28) -> Network:
    """The paper's MNIST network: two convolutions (32, 64), two linear layers, batch norm.

    Args:
        classes: Number of classes.
        channels: Of the images.
        size: Height and width of the images (one number where they are equal), at least 4.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 32), (32, 64)):
        layers += [_conv(inputs, outputs, bias=True), *_norm_relu(outputs), nn.MaxPool2d(2)]
    return _initialised(_convolutional(layers, 64 * _pooled(size, 2), 128, classes))


def resnet34(classes: int, *, channels: int = 3) -> Network:
    """The CIFAR form of ResNet-34: a 3x3 stem without pooling; any image size."""
    stem = [_conv(channels, 64), *_norm_relu(64)]
    return _initialised(_residual([*stem, *_stages(_basic, (3, 4, 6, 3))], 512, classes))


def preact_resnet18(classes: int, *, channels: int = 3) -> Network:
    """PreAct ResNet-18 as DivideMix has it: norm and ReLU in the stem, none after the last block; any image size."""
    stem = [_conv(channels, 64), *_norm_relu(64)]
    return _residual([*stem, *_stages(PreActivated, (2, 2, 2, 2))], 512, classes)


def resnet50(classes: int, *, channels: int = 3) -> Network:
    """ResNet-50 as in torchvision with ``zero_init_residual``: a block starts as its shortcut alone; any image size."""
    stem = [_conv(channels, 64, 7, 2), *_norm_relu(64), nn.MaxPool2d(3, 2, padding=1)]
    network = _residual([*stem, *_stages(_bottleneck, (3, 4, 6, 3), expansion=4)], 2048, classes)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(module, Residual):
            nn.init.zeros_(module.body[-1].weight)  # type: ignore[arg-type]  # the last batch norm
    return network


def mlp(classes: int, *, inputs: int, hidden: Sequence[int] = (256, 256), norm: str = "batch") -> Network:
    """Linear layers with ReLU, for features; images are flattened.

    Limits: no hidden layers is logistic regression.

    Args:
        classes: Number of classes.
        inputs: Number of features, C H W for images.
        hidden: Widths of the hidden layers.
        norm: "batch" normalises before each ReLU; "none" does not, so that a sample's output depends on no other.
    """
    if not isinstance(hidden, (list, tuple)) or not all(type(n) is int and n > 0 for n in hidden):
        raise ValueError(f"hidden must be a list of layer widths, such as [256,256] or []; received {hidden!r}")
    if norm not in ("batch", "none"):
        raise ValueError(f"norm must be 'batch' or 'none'; received {norm!r}")
    layers: list[nn.Module] = [nn.Flatten()]
    for outputs in hidden:
        layers += [nn.Linear(inputs, outputs), *([nn.BatchNorm1d(outputs)] if norm == "batch" else []), nn.ReLU()]
        inputs = outputs
    return Network(nn.Sequential(*layers), nn.Linear(inputs, classes))


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=bias)


def _norm_relu(width: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]


def _pooled(size: int | tuple[int, int], times: int) -> int:
    """Pixels left of an image that is halved ``times`` times."""
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 2**times:
        raise ValueError(
            f"images must have at least {2**times} pixels a side for this network; received {height} x {width}: "
            "use 'mlp' for images this small"
        )
    return (height >> times) * (width >> times)


def _convolutional(layers: list[nn.Module], inputs: int, hidden: int, classes: int) -> Network:
    """Convolutions, then a hidden linear layer of the features."""
    last = [nn.Flatten(), nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
    return Network(nn.Sequential(*layers, *last), nn.Linear(hidden, classes))


def _residual(layers: list[nn.Module], outputs: int, classes: int) -> Network:
    """Residual blocks, then the mean over all pixels."""
    return Network(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(outputs, classes))


def _stages(
    block: Callable[[int, int, int], nn.Module], counts: tuple[int, ...], *, expansion: int = 1
) -> list[nn.Module]:
    """Blocks of widths 64, 128, 256, 512; every stage but the first halves the image."""
    blocks, inputs = [], 64
    for stage, count in enumerate(counts):
        width = 64 * 2**stage
        for i in range(count):
            blocks.append(block(inputs, width, 2 if stage > 0 and i == 0 else 1))
            inputs = width * expansion
    return blocks


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def _basic(inputs: int, width: int, stride: int) -> Residual:
    body = [_conv(inputs, width, 3, stride), *_norm_relu(width), _conv(width, width), nn.BatchNorm2d(width)]
    return Residual(nn.Sequential(*body), _shortcut(inputs, width, stride))


def _bottleneck(inputs: int, width: int, stride: int) -> Residual:
    squeeze = [_conv(inputs, width, 1), *_norm_relu(width), _conv(width, width, 3, stride), *_norm_relu(width)]
    body = [*squeeze, _conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)]
    return Residual(nn.Sequential(*body), _shortcut(inputs, 4 * width, stride))


def _initialised(network: Network) -> Network:
    """Kaiming-uniform convolutions and Xavier-uniform linear layers, as in the paper's code; biases are torch's own."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return network


Shape = tuple[int, ...]
"""Of one sample: (C, H, W) of an image, (D,) of features."""


@dataclass(frozen=True)
class ModelEntry:
    """A network that can be named.

    Attributes:
        description: One line for the user.
        build: (shape, classes, **parameters) -> network.
        parameters: What may follow the name.
        images: Whether it needs images.
    """

    description: str
    build: Callable[..., Network]
    parameters: tuple[str, ...] = ()
    images: bool = True


MODELS: dict[str, ModelEntry] = {
    "cnn8": ModelEntry(
        "8 layers, the paper's network for CIFAR-10; width=1.0 scales it",
        lambda shape, classes, **given: cnn8(classes, channels=shape[0], size=shape[1:], **given),
        ("width",),
    ),
    "cnn-mnist": ModelEntry(
        "4 layers, the paper's network for MNIST",
        lambda shape, classes: cnn_mnist(classes, channels=shape[0], size=shape[1:]),
    ),
    "resnet34": ModelEntry(
        "CIFAR ResNet-34, the paper's network for CIFAR-100",
        lambda shape, classes: resnet34(classes, channels=shape[0]),
    ),
    "preact-resnet18": ModelEntry(
        "CIFAR PreAct ResNet-18, the network of DivideMix and its successors",
        lambda shape, classes: preact_resnet18(classes, channels=shape[0]),
    ),
    "resnet50": ModelEntry(
        "ResNet-50, the paper's network for WebVision",
        lambda shape, classes: resnet50(classes, channels=shape[0]),
    ),
    "mlp": ModelEntry(
        "linear layers for features and tiny images; hidden=[256,256], norm=batch|none",
        lambda shape, classes, **given: mlp(classes, inputs=math.prod(shape), **given),
        ("hidden", "norm"),
        images=False,
    ),
}


def default_model(shape: Shape) -> str:
    """The name of the network for samples of this shape.

    Features and images with a side below 16 pixels: mlp. Otherwise by the longer side: up to 32 pixels cnn8 (cnn-mnist
    for (1, 28, 28)), up to 64 preact-resnet18, above resnet50, which then takes less time as it starts by shrinking.

    Example:
        >>> default_model((3, 32, 32))
        'cnn8'
    """
    _check_shape(shape)
    if len(shape) == 1 or min(shape[1:]) < 16:
        return "mlp"
    if shape == (1, 28, 28):
        return "cnn-mnist"
    side = max(shape[1:])
    return "cnn8" if side <= 32 else "preact-resnet18" if side <= 64 else "resnet50"


def build_model(
    spec: str | nn.Module | Callable[..., nn.Module], *, shape: Shape, classes: int, seed: int
) -> nn.Module:
    """A new network: the same seed gives the same weights, and torch's random state is left as it was.

    ``spec`` is one of:

    - a name of `MODELS`, with parameters after colons: ``"cnn8:width=0.5"``, ``"mlp:hidden=[128,64]:norm=none"``;
    - ``"package.module:factory"``, imported from the current directory or the environment. What stands before the
      first colon is looked up in `MODELS` first: a module of yours that has such a name must be renamed;
    - the factory itself. It is called with those of the keywords ``shape`` and ``classes`` that it names (a factory
      without parameters is fine, and so is a class) and returns an ``nn.Module`` that gives logits (B, classes);
    - an ``nn.Module``: the result is a copy with the weights that it has, so that training leaves yours alone.

    Args:
        spec: What to build.
        shape: Of one sample, (C, H, W) or (D,).
        classes: Number of classes.
        seed: Of the weights.

    Raises:
        ValueError: If there is no such network, or it does not suit the shape.
    """
    _check_shape(shape)
    foreign = isinstance(spec, str) and spec.split(":")[0] not in MODELS
    with torch.random.fork_rng(devices=[]), _current_directory_first() if foreign else contextlib.nullcontext():
        factory = _factory(spec) if isinstance(spec, str) else spec
        # Only now: an import may draw, too. torch.manual_seed would reach accelerators, which nothing restores.
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        return _made(spec, factory, shape, classes)


def _factory(spec: str) -> Any:
    """What the text stands for; the name before the first colon decides."""
    name, *parameters = spec.split(":")
    if name in MODELS:
        return functools.partial(_built_in, name, _given(spec, name, parameters))
    if len(parameters) == 1 and all(part.isidentifier() for part in [*name.split("."), *parameters]):
        return _imported(spec, name, parameters[0])
    raise ValueError(
        f"unknown model {spec!r}; accepted: {', '.join(MODELS)}, with parameters as in 'cnn8:width=0.5', or "
        "'package.module:factory' for one of your own"
    )


def _built_in(name: str, given: dict[str, Any], *, shape: Shape, classes: int) -> Network:
    if MODELS[name].images and len(shape) != 3:
        raise ValueError(f"model {name!r} needs images (C, H, W); received samples of shape {shape}: use 'mlp'")
    return MODELS[name].build(shape, classes, **given)


def _given(spec: str, name: str, parameters: list[str]) -> dict[str, Any]:
    """The parameters, ``key=value`` each, by key."""
    given, keys = {}, MODELS[name].parameters
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        if key not in keys or not equals:
            accepted = " and ".join(f"{key}=..." for key in keys) or "none"
            hint = "" if equals else f"; a module of your own called {name!r} must be renamed"
            raise ValueError(f"model {spec!r}: unknown parameter {parameter!r}; {name!r} accepts: {accepted}{hint}")
        given[key] = _value(value)
    return given


def _value(text: str) -> Any:
    """A number or a list where the text is one, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _imported(spec: str, module: str, name: str) -> Any:
    try:
        found = importlib.import_module(module)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"model {spec!r}: cannot import {module!r} ({reason}); it must lie in the current directory or be "
            "installed, and is named with dots and without .py"
        ) from error
    if not hasattr(found, name):
        raise ValueError(f"model {spec!r}: module {module!r} has no {name!r}; accepted: the name of a factory in it")
    return getattr(found, name)


def _made(spec: object, factory: Any, shape: Shape, classes: int) -> nn.Module:
    """The factory's network, or a copy of what is one."""
    made = factory
    if isinstance(factory, nn.Module):
        made = copy.deepcopy(factory)
    elif callable(factory):
        made = factory(**_accepted(spec, inspect.signature(factory), {"shape": shape, "classes": classes}))
    if not isinstance(made, nn.Module):
        raise ValueError(f"model {spec!r}: the factory must return an nn.Module; received {type(made).__name__}")
    return made


def _accepted(spec: object, signature: inspect.Signature, offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the offered keywords that the signature names."""
    takes_all = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    given = {key: value for key, value in offered.items() if takes_all or key in signature.parameters}
    try:
        signature.bind(**given)
    except TypeError as error:
        raise ValueError(
            f"model {spec!r}: the factory takes {signature}; it is called with the keywords shape and classes where it "
            "names them, and all else needs a default"
        ) from error
    return given


@contextlib.contextmanager
def _current_directory_first() -> Iterator[None]:
    """Modules of the current directory can be imported, as under ``python -m``; a factory may import more of them."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _check_shape(shape: Shape) -> None:
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise ValueError(
            f"shape must be (C, H, W) for images or (D,) for features, without the batch; received {shape}"
        )
