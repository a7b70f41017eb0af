"""The parameters of a method: the fields of a dataclass, and how each is read from text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

Recipe = Callable[..., Any]
"""A dataclass whose objects are methods, or have a function ``objective(samples)``."""

Rate = float | Literal["auto", "injected"]
"""A share of wrong labels: a number, or a word for one that the trainer puts in its place (estimated, or injected)."""

REQUIRED = ("build", "step")
TRUTH = {"true": True, "false": False}


def parameters_of(recipe: Recipe) -> dict[str, Callable[[str], Any]]:
    """For each field a function from text to value, whose ValueError says what is accepted."""
    hints = get_type_hints(recipe)
    return {part.name: _reader(hints[part.name]) for part in fields(recipe) if part.init}  # type: ignore[arg-type]


def rate_number(rate: Rate | None) -> float | None:
    """A rate that the trainer has put in place."""
    if isinstance(rate, str):
        raise ValueError(f"noise_rate must be a number in [0, 1) here, got {rate!r}: the trainer puts it in place")
    return rate


def about(recipe: Recipe) -> str:
    """The first line of its docstring, without the full stop."""
    return (recipe.__doc__ or "").strip().split("\n")[0].removesuffix(".")


def check_recipe(name: str, recipe: Any) -> None:
    """ValueError where it is no dataclass, or neither a method nor one with an objective."""
    if not isinstance(recipe, type) or not is_dataclass(recipe):
        raise ValueError(f"method {name!r} must be a dataclass, its fields are the parameters; received {recipe!r}")
    lacking = [part for part in REQUIRED if not hasattr(recipe, part)]
    if lacking and not hasattr(recipe, "objective"):
        raise ValueError(
            f"method {name!r} has no {lacking[0]!r}: a method has {', '.join(REQUIRED)}, or instead of them objective"
        )


def _reader(hint: Any) -> Callable[[str], Any]:
    words, kinds = _accepted(hint)

    def read(text: str) -> Any:
        if text in words:
            return words[text]
        for kind in (int, float):
            if kind in kinds:
                try:
                    return kind(text)
                except ValueError:
                    continue
        if str in kinds:
            return text
        raise ValueError(" or ".join([*words, *(["a number"] if {int, float} & kinds else [])]))

    return read


def _accepted(hint: Any) -> tuple[dict[str, Any], set[Any]]:
    """(words with their values, further types) of an annotation."""
    if hint is bool:
        return TRUTH, set()
    if get_origin(hint) is Literal:
        return {str(word): word for word in get_args(hint)}, set()
    if not get_args(hint):
        return {}, {hint} - {NoneType}
    words, kinds = dict[str, Any](), set[Any]()
    for part in get_args(hint):
        more, further = _accepted(part)
        words, kinds = words | more, kinds | further
    return words, kinds
