"""Networks built from a name, a factory or a module, and checked against the data."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from antidote_learn.models.names import MODELS, Model, Shape, check_shape, is_built_in, split_model

if TYPE_CHECKING:
    from antidote_learn.models.networks import Network

MOST_PARAMETERS = 10**9  # of a named network; they take 4 GB, and as much again for gradients and for momentum


def build_model(spec: Model, *, shape: Shape, classes: int, seed: int) -> nn.Module:
    """Build a new network; the same seed gives the same weights, and torch's random state is left as it was.

    ``spec`` is one of:

    - a name of `MODELS`, with parameters after colons: ``"cnn8:width=0.5"``, ``"mlp:hidden=[128,64]:norm=none"``;
    - ``"package.module:factory"``, imported from the current directory or the environment. A name of `MODELS` comes
      first, so that a module of yours with such a name must be renamed;
    - the factory itself. It is called with the keywords ``shape`` and ``classes``, as far as it names them (a factory
      without parameters is fine, and so is a class), and returns an ``nn.Module`` that gives logits (B, classes);
    - an ``nn.Module``. The result is a copy with its weights, so that training leaves yours alone.

    Args:
        spec: The network to build.
        shape: The shape of one sample, (C, H, W) or (D,).
        classes: The number of classes.
        seed: The seed of the weights.

    Raises:
        ValueError: There is no such network, or it does not suit the shape.
    """
    check_shape(shape)
    foreign = isinstance(spec, str) and not is_built_in(spec)
    with torch.random.fork_rng(devices=[]), _current_directory_first() if foreign else contextlib.nullcontext():
        factory = _factory(spec) if isinstance(spec, str) else spec
        # The seed is set after the import, which may draw, too; torch.manual_seed would change accelerators for good.
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        return _build_network(spec, factory, shape, classes)


def check_model(spec: Model, *, shape: Shape, classes: int) -> None:
    """Raise ValueError unless the network gives logits (B, classes) for samples of this shape."""
    net = build_model(spec, shape=shape, classes=classes, seed=0).eval()
    name = repr(spec) if isinstance(spec, str) else type(spec).__name__
    required = f"(B, {', '.join(map(str, shape))})"
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = net(torch.zeros(2, *shape))
    except Exception as error:  # a network of the user's may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"model {name} must take samples {required}; it fails: {reason}") from error
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        received = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"model {name} must give logits (B, {classes}) for {required}, as there are {classes} classes; received "
            f"{received} for B = 2: a factory that is called with shape and classes always fits"
        )


def _factory(spec: str) -> Any:
    """The factory that a text stands for; the name before the first colon decides."""
    name, given = split_model(spec)
    return _import_factory(spec, name, given) if isinstance(given, str) else functools.partial(_built_in, name, given)


def _built_in(name: str, given: dict[str, Any], *, shape: Shape, classes: int) -> Network:
    if MODELS[name].images and len(shape) != 3:
        raise ValueError(f"model {name!r} needs images (C, H, W); received samples of shape {shape}: use 'mlp'")
    with torch.device("meta"):  # the meta device allocates nothing
        count = sum(weight.numel() for weight in MODELS[name].build(shape, classes, **given).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(
            f"model {name!r} would have {count:.2g} parameters for samples of shape {shape} and {classes} classes; "
            f"accepted are at most {MOST_PARAMETERS:.0e}: make it smaller"
        )
    return MODELS[name].build(shape, classes, **given)


def _import_factory(spec: str, module: str, name: str) -> Any:
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


def _build_network(spec: object, factory: Any, shape: Shape, classes: int) -> nn.Module:
    """Build the factory's network, or copy a module."""
    made = factory
    if isinstance(factory, nn.Module):
        made = copy.deepcopy(factory)
    elif callable(factory):
        made = _call_factory(spec, factory, shape, classes)
    if not isinstance(made, nn.Module):
        raise ValueError(f"model {spec!r}: the factory must return an nn.Module; received {type(made).__name__}")
    return made


def _call_factory(spec: object, factory: Any, shape: Shape, classes: int) -> Any:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError) as error:  # some functions in C have no signature
        raise ValueError(f"model {spec!r}: it is no factory of networks ({error})") from error
    given = _matching_keywords(spec, signature, {"shape": shape, "classes": classes})
    try:
        return factory(**given)
    except ValueError:
        raise
    except Exception as error:  # a factory of the user's may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"model {spec!r}: the factory fails: {reason}") from error


def _matching_keywords(spec: object, signature: inspect.Signature, offered: dict[str, Any]) -> dict[str, Any]:
    """The offered keywords that the signature names; ValueError where it needs others."""
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
    """Let modules of the current directory be imported, as under ``python -m``; a factory may import more of them."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
