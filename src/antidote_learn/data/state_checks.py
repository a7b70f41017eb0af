"""Checks of a run's saved preprocessing: every value has the type it must have, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Meta = dict[str, Any]
"""Values for JSON."""
Tensors = Mapping[str, NDArray[Any]]
"""Saved arrays by name."""


def read_field(meta: Any, name: str, kind: type[Any]) -> Any:
    """Read a value of the saved JSON, which must have the type ``kind``."""
    if not isinstance(meta, dict):
        raise damage_error(f"an object with {name!r} is needed, found {type(meta).__name__}")
    value = meta.get(name)
    if type(value) is not kind:
        raise damage_error(
            f"{name!r} must be {kind.__name__}, " + (f"found {value!r:.40}" if name in meta else "it is missing")
        )
    return value


def read_strings(meta: Any, name: str, *, distinct: bool = False) -> tuple[str, ...]:
    """Read a list of strings from the saved JSON."""
    values = read_field(meta, name, list)
    if not all(isinstance(value, str) for value in values) or (distinct and not len(set(values)) == len(values) > 0):
        raise damage_error(f"{name!r} must be a list of " + ("different strings" if distinct else "strings"))
    return tuple(values)


def read_tensor(tensors: Tensors, name: str, size: int, dtype: type[Any]) -> NDArray[Any]:
    """Read a saved array (size,) of finite numbers; only a mean may hold negative ones."""
    array = tensors.get(name)
    if array is None:
        raise damage_error(f"the array {name!r} is missing")
    if array.dtype != dtype or array.shape != (size,):
        found = f"{array.dtype} of shape {array.shape}"
        raise damage_error(f"the array {name!r} must be {np.dtype(dtype)} of shape ({size},), found {found}")
    if not np.isfinite(array).all() or (name != "mean" and (array < 0).any()):
        raise damage_error(f"the array {name!r} holds numbers that are infinite, NaN or negative")
    return array


def damage_error(reason: str) -> ValueError:
    """The error for a saved value that cannot be right."""
    return ValueError(f"the saved preprocessing is damaged: {reason}; restore the run's files or train it again")
