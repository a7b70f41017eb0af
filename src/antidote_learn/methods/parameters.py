"""The parameters of a method: the fields of a dataclass, each with a function that reads it from text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

Recipe = Callable[..., Any]
"""A dataclass whose objects are methods, or have a function ``method()`` or ``objective(samples)`` that makes one."""

Rate = float | Literal["auto", "injected"]
"""A share of wrong labels: a number, or a word that the trainer replaces by the estimated or the injected rate."""

REQUIRED = ("build", "step")  # the functions that every method has
TRUTH = {"true": True, "false": False}  # the truth values by their text


def parameters_of(recipe: Recipe) -> dict[str, Callable[[str], Any]]:
    """A function from text to value for each field; its ValueError names the accepted values."""
    hints = get_type_hints(recipe)
    return {part.name: _reader(hints[part.name]) for part in fields(recipe) if part.init}  # type: ignore[arg-type]


def rate_number(rate: Rate | None) -> float | None:
    """The rate as a number; ValueError for a word that the trainer has not replaced."""
    if isinstance(rate, str):
        raise ValueError(f"noise_rate must be a number in [0, 1) here, got {rate!r}: the trainer puts it in place")
    return rate


def about(recipe: Recipe) -> str:
    """The first line of a recipe's docstring, without the full stop."""
    return (recipe.__doc__ or "").strip().split("\n")[0].removesuffix(".")


def check_recipe(name: str, recipe: Any) -> None:
    """Raises ValueError for a recipe that is no dataclass, or neither a method nor the maker of one."""
    if not isinstance(recipe, type) or not is_dataclass(recipe):
        raise ValueError(f"method {name!r} must be a dataclass, its fields are the parameters; received {recipe!r}")
    lacking = [part for part in REQUIRED if not hasattr(recipe, part)]
    if lacking and not makes_objective(recipe) and not hasattr(recipe, "method"):
        raise ValueError(
            f"method {name!r} has no {lacking[0]!r}: a method has {', '.join(REQUIRED)}, or instead of them objective "
            "or method"
        )


def makes_objective(recipe: Any) -> bool:
    """Whether a recipe makes the objective of one network; elsewhere ``objective`` may be a parameter."""
    return callable(getattr(recipe, "objective", None))


def _reader(hint: Any) -> Callable[[str], Any]:
    words, kinds = _hint_parts(hint)

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


def _hint_parts(hint: Any) -> tuple[dict[str, Any], set[Any]]:
    """The words of an annotation with their values, and its further types."""
    if hint is bool:
        return TRUTH, set()
    if get_origin(hint) is Literal:
        return {str(word): word for word in get_args(hint)}, set()
    if not get_args(hint):
        return {}, {hint} - {NoneType}
    words, kinds = dict[str, Any](), set[Any]()
    for part in get_args(hint):
        more, further = _hint_parts(part)
        words, kinds = words | more, kinds | further
    return words, kinds
