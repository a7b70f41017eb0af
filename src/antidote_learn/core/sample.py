"""The sample that a search runs over: shifted losses under a reference measure, with the arithmetic of its place.

A search is written once, over the protocol `Sample`. `HostSample` is NumPy and `math`, and its loops may stop early.
`DeviceSample` is torch: nothing is read back, and a loop runs its full length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Scalar = Any  # float on the host, 0-d tensor on a device
Terms = Callable[[Any, Any], tuple[tuple[Any, int], ...]]  # (namespace, losses x) -> (array, power of x) to integrate


class Sample(Protocol):
    """Shifted losses under a reference measure, with scalar arithmetic."""

    eager: bool
    grouped: bool  # whether an integral is an array of one number a group (see `groups`)
    size: int
    streamed: bool  # whether the losses are read anew at every visit
    eps: float  # the unit of the last place
    tiny: float  # a stand-in for a positive number that underflowed
    exp: Any
    log: Any
    log1p: Any
    expm1: Any

    def integrate(self, terms: Terms) -> list[Scalar]:
        """The integral under the measure of every array that ``terms`` gives, times its power of the loss."""

    def moments(self) -> tuple[Scalar, Scalar, Scalar]:
        """The integrals of x, x^2 and x^3."""

    def tilt_integrals(self, back: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """The integrals of g - 1, g x, g x^2 and g x^3, with g = exp(back x)."""

    def smallest_positive(self) -> Scalar:
        """The smallest shifted loss that is not zero."""

    def sort(self) -> Any:
        """The shifted losses, the smallest first."""

    def at_rank(self, ascending: Any, k: Scalar) -> Scalar:
        """The k-th of sorted losses, counted from 0."""

    def at_least(self, bound: Scalar, x: Scalar) -> Scalar:
        """The larger of two numbers; NaN goes to the bound."""

    def select(self, condition: Any, yes: Scalar, no: Scalar) -> Scalar:
        """The number ``yes`` where the condition holds, else ``no``."""

    def scalar(self, value: float) -> Scalar:
        """A constant in the sample's arithmetic."""

    def branch(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """The result of one of two steps of a search."""

    def stop(self, condition: Any) -> bool:
        """Whether a loop may end here."""

    def at(self, values: Any) -> Any:
        """One number a row from one number a group; without groups the number itself."""

    def total(self, values: Any) -> Scalar:
        """The sum over groups of a number times the group's mass; without groups the number itself."""


def power_terms(xp: Any, x: Any) -> tuple[tuple[Any, int], ...]:
    """The terms x, x^2 and x^3."""
    return (x, 0), (x, 1), (x, 2)


def tilt_terms(back: Scalar) -> Terms:
    """The terms g - 1, g x, g x^2 and g x^3, with g = exp(back x)."""

    def terms(xp: Any, x: Any) -> tuple[tuple[Any, int], ...]:
        e = xp.expm1(x * back)
        g = e + 1.0
        gx = g * x
        return (e, 0), (g, 1), (gx, 1), (gx, 2)

    return terms
