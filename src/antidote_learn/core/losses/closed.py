"""Every loss with its gradient in closed form, as one node of the graph: nearly every training step on a CPU.

A graph of small operations costs a small batch several times its arithmetic, and a large one several passes over the
logits. This file holds the derivatives of the losses, for N rows of logits on the host and N class indices. Most losses
are functions of s = -log p_y, some also of S = -sum_k log p_k (`SLOPES`); the others have a gradient of their own
(`rowwise`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from antidote_learn.core.envelope import Formula, attach_gradient
from antidote_learn.core.fused import Parts, batch_gradient, cross_entropy_parts, is_plain, label_positions
from antidote_learn.core.losses.likelihood import TINY
from antidote_learn.core.losses.rowwise import GRADIENTS, by_rows, row_sums, tops
from antidote_learn.core.sample_numpy import ones


class LabelRows:
    """The probabilities of the N labels and their like, in NumPy, one entry for each row."""

    def __init__(self, logits: Any, at: Any, surprise: Any) -> None:
        """Takes (N, C) logits, the place of each label in them, once flat, and s = -log p_y."""
        self.logits, self.at, self.surprise = logits, at, surprise
        self.classes = logits.shape[1]

    @cached_property
    def p(self) -> Any:
        """p_y."""
        return np.exp(-self.surprise)

    @cached_property
    def complement(self) -> Any:
        """1 - p_y, with all its digits."""
        return -np.expm1(-self.surprise)

    @cached_property
    def total(self) -> Any:
        """S = -sum_k log p_k."""
        own = self.surprise + self.logits.ravel()[self.at]
        return self.classes * own - row_sums(self.logits)

    @cached_property
    def is_top(self) -> Any:
        """Whether the label is the top class."""
        return tops(self.logits) == self.at


class Slopes(NamedTuple):
    """Losses, with their derivatives in s and, where they depend on it, in S."""

    losses: Any
    own: Any
    total: Any = None


def _ce(rows: LabelRows) -> Slopes:
    return Slopes(rows.surprise, ones(len(rows.surprise), rows.surprise.dtype))


def _ls(rows: LabelRows, rate: float) -> Slopes:
    s, share = rows.surprise, rate / rows.classes
    return Slopes((1.0 - rate) * s + share * rows.total, np.full_like(s, 1.0 - rate), np.full_like(s, share))


def _focal_terms(s: Any, p: Any, c: Any, gamma: float, detach: bool) -> tuple[Any, Any]:
    """(1 - p)^g s and its derivative in s; s / (1 - p) -> 1 where both vanish."""
    factor = c**gamma
    losses = factor * s
    if not detach:
        more = losses / c
        more *= p
        more *= gamma
        factor += more
    return losses, factor


def _focal(rows: LabelRows, gamma: float, detach: bool) -> Slopes:
    s = np.maximum(rows.surprise, TINY)
    return Slopes(*_focal_terms(s, rows.p, -np.expm1(-s), gamma, detach))


def _mae(rows: LabelRows) -> Slopes:
    return Slopes(2.0 * rows.complement, 2.0 * rows.p)


def _gce(rows: LabelRows, q: float) -> Slopes:
    log_power = -q * rows.surprise
    return Slopes(np.expm1(log_power) / -q, np.exp(log_power))


def _rce(rows: LabelRows, floor: float) -> Slopes:
    scale = -math.log(floor)
    return Slopes(scale * rows.complement, scale * rows.p)


def _sce(rows: LabelRows, alpha: float, beta: float, floor: float) -> Slopes:
    scale = -beta * math.log(floor)
    return Slopes(alpha * rows.surprise + scale * rows.complement, alpha + scale * rows.p)


def _nce(rows: LabelRows) -> Slopes:
    s, total = rows.surprise, rows.total
    loss = s / total
    return Slopes(loss, 1.0 / total, -loss / total)


def _aul(rows: LabelRows, a: float, q: float) -> Slopes:
    rest = a - rows.p
    power = rest ** (q - 1.0)
    return Slopes((power * rest - (a - 1.0) ** q) / q, power * rows.p)


def _agce(rows: LabelRows, a: float, q: float) -> Slopes:
    rest = a + rows.p
    power = rest ** (q - 1.0)
    return Slopes(((a + 1.0) ** q - power * rest) / q, power * rows.p)


def _ael(rows: LabelRows, a: float) -> Slopes:
    loss = np.exp(rows.p / -a)
    return Slopes(loss, loss * rows.p / a)


def _eps_surprise(rows: LabelRows, m: float, floor: float) -> tuple[Any, Any]:
    """-log p' of the eps-softmax, and its derivative in s."""
    inside = rows.complement / (m + 1.0)
    s = np.where(rows.is_top, -np.log1p(-inside), rows.surprise + math.log1p(m))
    slope = np.where(rows.is_top, rows.p / ((m + 1.0) * (1.0 - inside)), 1.0)
    least = -math.log(floor)
    return np.minimum(s, least), np.where(s <= least, slope, 0.0)


def _eps_ce(rows: LabelRows, m: float, floor: float) -> Slopes:
    return Slopes(*_eps_surprise(rows, m, floor))


def _eps_focal(rows: LabelRows, m: float, gamma: float, floor: float, detach: bool) -> Slopes:
    s, inner = _eps_surprise(rows, m, floor)
    s = np.maximum(s, TINY)
    losses, slope = _focal_terms(s, np.exp(-s), -np.expm1(-s), gamma, detach)
    return Slopes(losses, slope * inner)


SLOPES: dict[str, Callable[..., Slopes]] = {
    "ce": _ce,
    "ls": _ls,
    "focal": _focal,
    "mae": _mae,
    "gce": _gce,
    "rce": _rce,
    "sce": _sce,
    "nce": _nce,
    "aul": _aul,
    "ael": _ael,
    "agce": _agce,
    "eps-ce": _eps_ce,
    "eps-focal": _eps_focal,
}


class ClosedForm:
    """A weighted sum of losses, as (weight, name, all parameters)."""

    def __init__(self, terms: Sequence[tuple[float, str, Mapping[str, Any]]]) -> None:
        """Binds the parameters."""
        self.slopes = [(weight, partial(SLOPES[name], **given)) for weight, name, given in terms if name in SLOPES]
        self.gradients = [(w, partial(GRADIENTS[name], **given)) for w, name, given in terms if name in GRADIENTS]

    def __call__(self, input: Tensor, target: Tensor, scale: float) -> tuple[float, Tensor] | None:
        """``scale`` times the sum of the losses of (N, C) logits on the host, and its gradient.

        None where `cross_entropy_parts` is None, and where the sum is not finite in the input's type.
        """
        at = label_positions(input, target)
        if at is None:
            return None
        logits, found = input.detach(), []
        if self.slopes:
            parts = cross_entropy_parts(logits, at)
            if parts is None:
                return None
            found.append(_by_slopes(self.slopes, LabelRows(logits.numpy(), at, parts.losses), parts, scale))
        found += [by_rows(function, logits, at, weight * scale) for weight, function in self.gradients]
        value, gradient = found[0]
        for more, table in found[1:]:
            value, gradient = value + more, gradient.add_(table)
        return (value, gradient) if math.isfinite(value) else None

    def attach(self, input: Tensor, target: Tensor, scale: float, formula: Formula) -> Tensor | None:
        """``scale`` times the sum of the losses as one node of the graph; None for anything unusual.

        The ``formula`` gives the same from the logits by a graph of torch's own, for second derivatives.
        """
        if not (is_plain(input, target, None) and input.requires_grad):
            return None
        found = self(input, target, scale)
        return None if found is None else attach_gradient(input, found[1], found[0], formula)


def _scale_term(term: tuple[float, Any], rows: LabelRows) -> Slopes:
    weight, function = term
    found: Slopes = function(rows)
    return found if weight == 1.0 else Slopes(*(None if part is None else part * weight for part in found))


def _total(parts: Sequence[Any]) -> Any:
    """The sum of the parts that are not None; None where all are."""
    there = [part for part in parts if part is not None]
    return sum(there[1:], start=there[0]) if there else None


def _by_slopes(terms: Sequence[tuple[float, Any]], rows: LabelRows, parts: Parts, scale: float) -> tuple[float, Tensor]:
    """The losses that are functions of s and S: d s = p - onehot, d S = K p - 1 = K (p - onehot) + (K onehot - 1)."""
    losses, own, total = (_total(column) for column in zip(*(_scale_term(term, rows) for term in terms), strict=True))
    value = float(losses.sum()) * scale
    if total is None:
        return value, batch_gradient(parts, own, scale)
    gradient = batch_gradient(parts, own + total * rows.classes, scale)
    total *= scale
    gradient.numpy().ravel()[rows.at] += total * rows.classes
    return value, gradient.sub_(torch.from_numpy(total).unsqueeze(1))
