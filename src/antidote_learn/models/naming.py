"""How a user names a network, and how it is built from a name, a factory or a module."""

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from antidote_learn.models.networks import (
    DivideMixBlock,
    Network,
    cnn8,
    cnn_mnist,
    mlp,
    preact_resnet18,
    resnet34,
    resnet50,
)

Shape = tuple[int, ...]
"""Of one sample: (C, H, W) of an image, (D,) of features."""

Model = str | nn.Module | Callable[..., nn.Module]
"""What a user may give as a network, see `build_model`."""

MOST_PARAMETERS = 10**9  # of a network built by its name: 4 GB, and as much again for gradients and for momentum


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
        "CIFAR ResNet-34, the paper's network for CIFAR-100; init=kaiming|default",
        lambda shape, classes, **given: resnet34(classes, channels=shape[0], **given),
        ("init",),
    ),
    "preact-resnet18": ModelEntry(
        "CIFAR PreAct ResNet-18 with the blocks of He et al.: identity shortcuts carry the block's input",
        lambda shape, classes: preact_resnet18(classes, channels=shape[0]),
    ),
    "preact-resnet18-dividemix": ModelEntry(
        "the same as in DivideMix and its successors: identity shortcuts carry relu(norm(input))",
        lambda shape, classes: preact_resnet18(classes, channels=shape[0], block=DivideMixBlock),
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


def build_model(spec: Model, *, shape: Shape, classes: int, seed: int) -> nn.Module:
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
    foreign = isinstance(spec, str) and not is_built_in(spec)
    with torch.random.fork_rng(devices=[]), _current_directory_first() if foreign else contextlib.nullcontext():
        factory = _factory(spec) if isinstance(spec, str) else spec
        # Only now: an import may draw, too. torch.manual_seed would reach accelerators, which nothing restores.
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        return _made(spec, factory, shape, classes)


def is_built_in(spec: str) -> bool:
    """Whether the text names a network of `MODELS`; any other names code of the user's."""
    return spec.split(":")[0] in MODELS


def check_model(spec: Model, *, shape: Shape, classes: int) -> None:
    """ValueError unless the network gives logits (B, classes) for samples of this shape."""
    net = build_model(spec, shape=shape, classes=classes, seed=0).eval()
    name = repr(spec) if isinstance(spec, str) else type(spec).__name__
    required = f"(B, {', '.join(map(str, shape))})"
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = net(torch.zeros(2, *shape))
    except Exception as error:  # whatever a network of the user's raises
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"model {name} must take samples {required}; it fails: {reason}") from error
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        received = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"model {name} must give logits (B, {classes}) for {required}, as there are {classes} classes; received "
            f"{received} for B = 2: a factory that is called with shape and classes always fits"
        )


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
    with torch.device("meta"):  # nothing is allocated
        count = sum(weight.numel() for weight in MODELS[name].build(shape, classes, **given).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(
            f"model {name!r} would have {count:.2g} parameters for samples of shape {shape} and {classes} classes; "
            f"accepted are at most {MOST_PARAMETERS:.0e}: make it smaller"
        )
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
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two for absurd lengths
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
        made = _called(spec, factory, shape, classes)
    if not isinstance(made, nn.Module):
        raise ValueError(f"model {spec!r}: the factory must return an nn.Module; received {type(made).__name__}")
    return made


def _called(spec: object, factory: Any, shape: Shape, classes: int) -> Any:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError) as error:  # some parts of C have none
        raise ValueError(f"model {spec!r}: it is no factory of networks ({error})") from error
    given = _accepted(spec, signature, {"shape": shape, "classes": classes})
    try:
        return factory(**given)
    except ValueError:
        raise
    except Exception as error:  # whatever a factory of the user's raises
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"model {spec!r}: the factory fails: {reason}") from error


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
