"""f-divergences as small records: D_f(Q || P) = E_P[f(dQ/dP)] (eq:f_div_def).

Every function of a record takes NumPy arrays, torch tensors or plain numbers and works element by element.
``weight`` always means the likelihood ratio dQ/dP, whose mean under P is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

Function = Callable[[Any], Any]

LEAST_ORDER, LARGEST_ORDER = 1.0 + 1e-6, 1000.0  # orders of alpha between which tests show that budgets are met


def namespace(x: Any) -> Any:
    """The module whose functions suit ``x``: torch for tensors, NumPy for everything else."""
    return torch if isinstance(x, torch.Tensor) else np


class Power(NamedTuple):
    """f'(w) = constant + scale w^(1 / exponent): weights are a power of a shifted loss, and their mass is explicit."""

    exponent: float
    scale: float
    constant: float

    @property
    def steep(self) -> bool:
        """Whether it is alpha of an order above 4, which is solved in logarithms (see `pivots`)."""
        return 0.0 < self.exponent < 1.0 / 3.0


@dataclass(frozen=True, eq=False)
class Divergence:
    """A strictly convex f with f(1) = 0, its conjugate, and the constants that solvers read.

    Attributes:
        name: The name in messages and on the command line.
        f: The generator, on the open domain.
        f_prime: Its derivative.
        conjugate: f*(y) = sup_x {y x - f(x)}.
        conjugate_prime: f*'(y), the weight that belongs to the score y.
        curvature: w -> f*''(f'(w)) = 1 / f''(w); 0 where the weight has vanished.
        excess: d -> f(1 + d) - f'(1) d >= 0, computed without cancellation for small d. Its mean under P is D_f.
        f_zero: f(0), the limit at 0; may be infinite.
        slope_inf: f'(inf); finite for a bounded divergence.
        domain: The open interval (a, b) of f.
        vanishing_score: f'(0), the score y below which a weight is exactly 0; -inf where weights never vanish.
        power: The form of f', where it is a power.
        budget: Closed form of delta(r), eq:delta_rmax, where there is one.
        rate: Closed form of its inverse, where there is one.
        slope_one: f'(1).
        curvature_one: 1 / f''(1).
        excess_zero: f(0) + f'(1), the least cost of a unit of forgotten mass.
        max_delta: The supremum of D_f over all pairs of distributions, f(0) + f'(inf).
        convex_penalty: Whether V(r) = r^2 / (1 - r) is convex in delta(r), so that the penalised problem has one
            minimum.
    """

    name: str
    f: Function
    f_prime: Function
    conjugate: Function
    conjugate_prime: Function
    curvature: Function
    excess: Function
    f_zero: float
    slope_inf: float
    domain: tuple[float, float] = (0.0, math.inf)
    vanishing_score: float = -math.inf
    power: Power | None = None
    budget: Function | None = None
    rate: Function | None = None

    slope_one: float = field(init=False)
    curvature_one: float = field(init=False)
    excess_zero: float = field(init=False)
    max_delta: float = field(init=False)
    convex_penalty: bool = field(init=False)

    def __post_init__(self) -> None:
        """Computes the constants that every solve reads."""
        constants = {
            "slope_one": (slope := float(self.f_prime(1.0))),
            "curvature_one": float(self.curvature(1.0)),
            "excess_zero": self.f_zero + slope,
            "max_delta": self.f_zero + self.slope_inf,
            "convex_penalty": self._convex_penalty(),
        }
        for name, value in constants.items():
            object.__setattr__(self, name, value)

    def _convex_penalty(self) -> bool:
        z = 1.0 / (1.0 - np.linspace(0.001, 0.999, 400))
        with np.errstate(all="ignore"):
            price = (z * z - 1.0) / (self.f_zero - self.f(z) + z * self.f_prime(z))  # V'(r) / delta'(r)
            return bool((np.diff(price) > 0.0).all())

    @property
    def bounded_ratio(self) -> bool:
        """Whether weights stay inside an interval, so that t -> 0 uses up no more than a part of a large budget."""
        return self.domain != (0.0, math.inf)

    def __copy__(self) -> Divergence:
        return self

    def __deepcopy__(self, memo: object) -> Divergence:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if DIVERGENCES.get(self.name) is not self and self.power is None:
            raise TypeError(f"divergence {self.name!r} holds functions of yours and cannot be pickled; build it anew")
        return divergence_of, (self.name,)

    def __repr__(self) -> str:
        return f"<divergence {self.name}>"


def _kl() -> Divergence:
    """f(w) = w log w."""

    def f(w: Any) -> Any:
        xp = namespace(w)
        return xp.special.xlogy(w, w) if xp is torch else w * np.log(np.where(np.asarray(w) > 0, w, 1.0))

    def excess(d: Any) -> Any:
        xp = namespace(d)
        w = d + 1.0
        return w * xp.log1p(xp.where(w > 0, d, 0.0 * w)) - d

    return Divergence(
        name="kl",
        f=f,
        f_prime=lambda w: namespace(w).log(w) + 1.0,
        conjugate=lambda y: namespace(y).exp(y - 1.0),
        conjugate_prime=lambda y: namespace(y).exp(y - 1.0),
        curvature=lambda w: w,
        excess=excess,
        f_zero=0.0,
        slope_inf=math.inf,
        budget=lambda r: -namespace(r).log1p(-r),
        rate=lambda delta: -namespace(delta).expm1(-delta),
    )


def alpha(a: float) -> Divergence:
    """The alpha-divergence f(w) = (w^a - 1) / (a (a - 1)), a > 1 (eq:f_alpha_star).

    Limits: a -> 1 is KL in value and weights; a = 2 is half of Pearson's chi-square. Weights vanish beyond a threshold.

    Args:
        a: The order, greater than 1: from 1.000001, which is KL in six digits, to 1000.

    Example:
        >>> alpha(2.0).f(3.0)
        4.0
    """
    if isinstance(a, bool) or not (isinstance(a, (int, float)) and LEAST_ORDER <= a <= LARGEST_ORDER):
        raise ValueError(
            f"alpha must be a number from {LEAST_ORDER:.6f} to {LARGEST_ORDER:g}, so greater than 1, got {a!r}; "
            "for the limit alpha -> 1 use 'kl'"
        )
    a = float(a)
    b, scale = a - 1.0, a * (a - 1.0)

    def positive(y: Any) -> Any:
        return torch.clamp(b * y, min=0.0) if isinstance(y, torch.Tensor) else np.maximum(b * y, 0.0)

    def weight(y: Any) -> Any:
        return positive(y) if a == 2.0 else positive(y) ** (1.0 / b)

    def curvature(w: Any) -> Any:
        xp = namespace(w)
        alive = w > 0
        return xp.where(alive, xp.where(alive, w, 1.0) ** (2.0 - a), 0.0)

    def excess(d: Any) -> Any:
        if a == 2.0:
            return 0.5 * d * d
        xp = namespace(d)
        alive = d > -1.0
        grown = xp.expm1(a * xp.log1p(xp.where(alive, d, 0.0)))
        return (xp.where(alive, grown, -1.0) - a * d) / scale

    return Divergence(
        name="chi2" if a == 2.0 else f"alpha:{a!r}".removesuffix(".0"),
        f=lambda w: (w**a - 1.0) / scale,
        f_prime=lambda w: w**b / b,
        conjugate=lambda y: positive(y) ** (a / b) / a + 1.0 / scale,
        conjugate_prime=weight,
        curvature=curvature,
        excess=excess,
        f_zero=-1.0 / scale,
        slope_inf=math.inf,
        vanishing_score=0.0,
        power=Power(1.0 / b, 1.0 / b, 0.0),
        budget=lambda r: namespace(r).expm1(-b * namespace(r).log1p(-r)) / scale,
        rate=lambda delta: -namespace(delta).expm1(-namespace(delta).log1p(scale * delta) / b),
    )


def _jensen_shannon() -> Divergence:
    """f(w) = (w log w - (w + 1) log((w + 1) / 2)) / 2; D_f < log 2."""
    half_log2 = 0.5 * math.log(2.0)

    def weight(y: Any) -> Any:
        xp = namespace(y)
        inside = y < half_log2
        e = xp.expm1(2.0 * xp.where(inside, y, 0.0))
        return xp.where(inside, (1.0 + e) / xp.where(inside, 1.0 - e, 1.0), math.inf)

    def conjugate(y: Any) -> Any:
        xp = namespace(y)
        inside = y < half_log2
        return xp.where(inside, -0.5 * xp.log1p(-xp.where(inside, xp.expm1(2.0 * y), 0.0)), math.inf)

    def excess(d: Any) -> Any:
        xp = namespace(d)
        w = d + 1.0
        return 0.5 * (w * xp.log1p(xp.where(w > 0, d, 0.0 * w)) - (w + 1.0) * xp.log1p(0.5 * d))

    return Divergence(
        name="js",
        f=lambda w: excess(w - 1.0),  # f'(1) = 0
        f_prime=lambda w: 0.5 * namespace(w).log(2.0 * w / (w + 1.0)),
        conjugate=conjugate,
        conjugate_prime=weight,
        curvature=lambda w: 2.0 * w * (w + 1.0),
        excess=excess,
        f_zero=half_log2,
        slope_inf=half_log2,
    )


def _hellinger() -> Divergence:
    """f(w) = (sqrt w - 1)^2 / 2; D_f < 1."""

    def weight(y: Any) -> Any:
        xp = namespace(y)
        inside = y < 0.5
        return xp.where(inside, xp.where(inside, 1.0 - 2.0 * y, 1.0) ** -2.0, math.inf)

    def conjugate(y: Any) -> Any:
        xp = namespace(y)
        inside = y < 0.5
        return xp.where(inside, y / xp.where(inside, 1.0 - 2.0 * y, 1.0), math.inf)

    def excess(d: Any) -> Any:
        root_minus_one = d / (1.0 + (1.0 + d) ** 0.5)
        return 0.5 * root_minus_one * root_minus_one

    return Divergence(
        name="hellinger",
        f=lambda w: excess(w - 1.0),  # f'(1) = 0
        f_prime=lambda w: 0.5 - 0.5 * w**-0.5,
        conjugate=conjugate,
        conjugate_prime=weight,
        curvature=lambda w: 4.0 * w**1.5,
        excess=excess,
        f_zero=0.5,
        slope_inf=0.5,
        power=Power(-2.0, -0.5, 0.5),
        budget=lambda r: r / (1.0 + (1.0 - r) ** 0.5),
        rate=lambda delta: delta * (2.0 - delta),
    )


KL = _kl()
CHI2 = alpha(2.0)
JS = _jensen_shannon()
HELLINGER = _hellinger()
DIVERGENCES: dict[str, Divergence] = {d.name: d for d in (KL, CHI2, JS, HELLINGER)}


def divergence_of(spec: Divergence | str) -> Divergence:
    """The record that ``spec`` names: a record itself, a name of ``DIVERGENCES`` or ``"alpha:A"``.

    Example:
        >>> divergence_of("alpha:1.5")
        <divergence alpha:1.5>
    """
    if isinstance(spec, Divergence):
        return spec
    if isinstance(spec, str):
        if spec in DIVERGENCES:
            return DIVERGENCES[spec]
        head, _, order = spec.partition(":")
        if head == "alpha":
            try:
                return alpha(float(order))
            except ValueError as error:
                raise ValueError(
                    f"divergence {spec!r}: the order after 'alpha:' must be a number above 1, at most {LARGEST_ORDER:g}"
                ) from error
    names = ", ".join(repr(name) for name in DIVERGENCES)
    orders = f"'alpha:A' with 1 < A <= {LARGEST_ORDER:g}"
    raise ValueError(f"unknown divergence {spec!r}; accepted: {names}, {orders}, or a Divergence record")
