"""`Sample` in torch, for accelerators and while compiling: no host synchronisation, no loop that stops early."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from antidote_learn.core.sample import Scalar, Terms, power_terms, tilt_terms


class DeviceSample:
    """Losses shifted to minimum 0 under a measure ``mass``, both tensors."""

    eager, grouped, streamed = False, False, False
    exp, log, log1p = staticmethod(torch.exp), staticmethod(torch.log), staticmethod(torch.log1p)
    expm1 = staticmethod(torch.expm1)

    def __init__(self, x: torch.Tensor, mass: torch.Tensor) -> None:
        self.x, self.mass, self.size = x, mass, x.numel()
        self.eps, self.tiny = torch.finfo(x.dtype).eps, max(1e-300, 2.0 * torch.finfo(x.dtype).tiny)
        first = mass * x
        self._masses = mass, first, first * x

    def integrate(self, terms: Terms) -> list[torch.Tensor]:
        """The integral under the measure of every array that ``terms`` gives, times its power of the loss."""
        return [(array * self._masses[power]).sum(-1) for array, power in terms(torch, self.x)]

    def moments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The integrals of x, x^2 and x^3."""
        return tuple(self.integrate(power_terms))  # type: ignore[return-value]

    def tilt_integrals(self, back: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The integrals of g - 1, g x, g x^2 and g x^3, with g = exp(back x); for ``back`` (T,) each is (T,)."""
        terms = tilt_terms(back.unsqueeze(-1) if back.dim() else back)
        return tuple(self.integrate(terms))  # type: ignore[return-value]

    def smallest_positive(self) -> torch.Tensor:
        """The smallest shifted loss that is not zero."""
        least = torch.where(self.x > 0, self.x, math.inf).min()
        return torch.where(torch.isinf(least), 1.0, least)

    def sort(self) -> torch.Tensor:
        """The shifted losses, the smallest first."""
        return torch.sort(self.x).values

    def at_rank(self, ascending: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """The k-th of sorted losses, counted from 0."""
        return ascending.take(k.long())

    def share(self, mass: torch.Tensor) -> torch.Tensor:
        """The share of P that a part of its mass is; in groups, the share of each group."""
        return mass.sum()

    def at(self, values: torch.Tensor) -> torch.Tensor:
        """One number a row from one number a group; without groups the number itself."""
        return values

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over groups of a number times the group's mass; without groups the number itself."""
        return values

    @staticmethod
    def at_least(bound: Scalar, x: torch.Tensor) -> torch.Tensor:
        """The larger of two numbers; NaN goes to the bound."""
        return torch.where(x > bound, x, bound)

    @staticmethod
    def select(condition: torch.Tensor, yes: Scalar, no: Scalar) -> torch.Tensor:
        """The number ``yes`` where the condition holds, else ``no``."""
        return torch.where(condition, yes, no)

    def scalar(self, value: float) -> torch.Tensor:
        """A constant in the sample's arithmetic."""
        return torch.full_like(self.mass[0], value)

    @staticmethod
    def branch(condition: torch.Tensor, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """The result of one of two steps of a search; both are computed."""
        return _select_all(condition, yes(), no())

    @staticmethod
    def stop(condition: torch.Tensor) -> bool:
        """Whether a loop may end here: never."""
        return False


def _select_all(condition: torch.Tensor, yes: Any, no: Any) -> Any:
    """`torch.where` over (nested) named tuples of numbers."""
    if isinstance(yes, tuple):
        parts = [_select_all(condition, a, b) for a, b in zip(yes, no, strict=True)]
        return tuple(parts) if type(yes) is tuple else type(yes)(*parts)
    return None if yes is None else torch.where(condition, yes, no)
