"""The names of networks and their parameters; torch is not imported before a network is built."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import nn

    from antidote_learn.models.networks import Network

Shape = tuple[int, ...]
"""The shape of one sample, (C, H, W) of an image or (D,) of features."""

Model: TypeAlias = "str | nn.Module | Callable[..., nn.Module]"
"""A network as a user gives it, see `build_model`."""


@dataclass(frozen=True)
class ModelEntry:
    """A network that can be named.

    Attributes:
        description: One line for the user.
        build: The function (shape, classes, **parameters) -> network.
        parameters: The parameters that may follow the name.
        images: Whether the network needs images.
    """

    description: str
    build: Callable[..., Network]
    parameters: tuple[str, ...] = ()
    images: bool = True


def _networks() -> ModuleType:
    from antidote_learn.models import networks

    return networks


MODELS: dict[str, ModelEntry] = {
    "cnn8": ModelEntry(
        "8 layers, the paper's network for CIFAR-10; width=1.0 scales it",
        lambda shape, classes, **given: _networks().cnn8(classes, channels=shape[0], size=shape[1:], **given),
        ("width",),
    ),
    "cnn-mnist": ModelEntry(
        "4 layers, the paper's network for MNIST",
        lambda shape, classes: _networks().cnn_mnist(classes, channels=shape[0], size=shape[1:]),
    ),
    "resnet34": ModelEntry(
        "CIFAR ResNet-34, the paper's network for CIFAR-100; init=kaiming|default",
        lambda shape, classes, **given: _networks().resnet34(classes, channels=shape[0], **given),
        ("init",),
    ),
    "preact-resnet18": ModelEntry(
        "CIFAR PreAct ResNet-18 with the blocks of He et al.: identity shortcuts carry the block's input",
        lambda shape, classes: _networks().preact_resnet18(classes, channels=shape[0]),
    ),
    "preact-resnet18-dividemix": ModelEntry(
        "the same as in DivideMix and its successors: identity shortcuts carry relu(norm(input))",
        lambda shape, classes: _networks().preact_resnet18(
            classes, channels=shape[0], block=_networks().DivideMixBlock
        ),
    ),
    "resnet50": ModelEntry(
        "ResNet-50, the paper's network for WebVision",
        lambda shape, classes: _networks().resnet50(classes, channels=shape[0]),
    ),
    "mlp": ModelEntry(
        "linear layers for features and tiny images; hidden=[256,256], norm=batch|none",
        lambda shape, classes, **given: _networks().mlp(classes, inputs=math.prod(shape), **given),
        ("hidden", "norm"),
        images=False,
    ),
}


def default_model(shape: Shape) -> str:
    """The name of the network for samples of this shape.

    Features and images with a side below 16 pixels take mlp. Other images go by their longer side: up to 32 pixels take
    cnn8 (cnn-mnist for (1, 28, 28)), up to 64 preact-resnet18, and larger ones resnet50, which shrinks them at once and
    then takes less time.

    Example:
        >>> default_model((3, 32, 32))
        'cnn8'
    """
    check_shape(shape)
    if len(shape) == 1 or min(shape[1:]) < 16:
        return "mlp"
    if shape == (1, 28, 28):
        return "cnn-mnist"
    side = max(shape[1:])
    return "cnn8" if side <= 32 else "preact-resnet18" if side <= 64 else "resnet50"


def is_built_in(spec: str) -> bool:
    """Whether the text names a network of `MODELS`, rather than code of the user's."""
    return spec.split(":")[0] in MODELS


def split_model(spec: str) -> tuple[str, dict[str, Any] | str]:
    """Split a text into (name, parameters) of a network of `MODELS`, or (module, factory) of the user's code.

    The module is not imported.

    Raises:
        ValueError: The text is neither, or a parameter is unknown.

    Example:
        >>> split_model("mlp:hidden=[128,64]:norm=none")
        ('mlp', {'hidden': [128, 64], 'norm': 'none'})
        >>> split_model("package.module:factory")
        ('package.module', 'factory')
    """
    name, *parameters = spec.split(":")
    if name in MODELS:
        return name, _parse_parameters(spec, name, parameters)
    if len(parameters) == 1 and all(part.isidentifier() for part in [*name.split("."), *parameters]):
        return name, parameters[0]
    raise ValueError(
        f"unknown model {spec!r}; accepted: {', '.join(MODELS)}, with parameters as in 'cnn8:width=0.5', or "
        "'package.module:factory' for one of your own"
    )


def _parse_parameters(spec: str, name: str, parameters: list[str]) -> dict[str, Any]:
    """Parse the parameters, each ``key=value``, into a dictionary."""
    given, keys = {}, MODELS[name].parameters
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        if key not in keys or not equals:
            accepted = " and ".join(f"{key}=..." for key in keys) or "none"
            hint = "" if equals else f"; a module of your own called {name!r} must be renamed"
            raise ValueError(f"model {spec!r}: unknown parameter {parameter!r}; {name!r} accepts: {accepted}{hint}")
        given[key] = _parse_value(value)
    return given


def _parse_value(text: str) -> Any:
    """Parse a text as a number or a list; any other text stays."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two come of absurd lengths
        return text


def check_shape(shape: Shape) -> None:
    """Raise ValueError unless the shape is that of an image or of features."""
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise ValueError(
            f"shape must be (C, H, W) for images or (D,) for features, without the batch; received {shape}"
        )
