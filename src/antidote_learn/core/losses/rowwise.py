"""The closed forms of losses that need a row's whole table (see `closed`): with their gradients, a few passes over it.

Each is written once for NumPy, which takes small batches, and for torch, whose threads take large ones: ``of`` is one
of the two. It reads (N, C) logits z and the labels' places in them, once flat; writes ``scale`` times the gradient of
every loss in its row to ``out``; and gives the losses (N,). ``work`` are three tables to work in: to get memory for a
large table takes longer than a pass over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antidote_learn.core.fused import SMALL, row_starts
from antidote_learn.core.losses.likelihood import TINY, highest_focal
from antidote_learn.core.sample_numpy import ones

CHUNK = 1 << 19  # logits of a pass, whose tables fit the cache
WORK = 3  # tables of scratch memory
LEAST = 1e-5  # floor of 1 - p_k in negative learning
LOG2E = math.log2(math.e)


def row_sums(table: Any) -> Any:
    """The sums (N,) of the rows of a table (N, C)."""
    if not isinstance(table, np.ndarray):
        return table.sum(1)
    if table.size > SMALL:
        return torch.from_numpy(table).sum(1).numpy()
    return table.dot(ones(table.shape[1], table.dtype))


def tops(logits: Any) -> Any:
    """The place of each row's top class, once the table is flat."""
    if not isinstance(logits, np.ndarray):
        return torch.from_numpy(tops(logits.numpy()))  # torch takes several times as long
    return logits.argmax(1) + row_starts(*logits.shape)


def by_rows(function: Callable[..., Any], logits: Tensor, at: Any, scale: float) -> tuple[float, Tensor]:
    """``scale`` times the sum of the losses, and its gradient; the caller looks whether they are finite."""
    z = logits.contiguous()
    if z.numel() <= SMALL:
        table, gradient = z.numpy(), np.empty(z.shape, z.numpy().dtype)
        with np.errstate(all="ignore"):
            losses = function(np, table, at, scale, gradient, [np.empty_like(table) for _ in range(WORK)])
        return float(losses.sum()) * scale, torch.from_numpy(gradient)
    step = max(CHUNK // z.shape[1], 1)
    value, found, work = 0.0, torch.empty_like(z), [torch.empty_like(z[:step]) for _ in range(WORK)]
    for start in range(0, len(z), step):
        rows = z[start : start + step]
        place = torch.from_numpy(at[start : start + step] - start * z.shape[1])
        own = [table[: len(rows)] for table in work]
        value += float(function(torch, rows, place, scale, found[start : start + step], own).sum()) * scale
    return value, found


def _softmax(logits: Any, out: Any) -> None:
    if isinstance(logits, np.ndarray):
        logits, out = torch.from_numpy(logits), torch.from_numpy(out)
    torch.softmax(logits, 1, out=out)


def _exp(z: Any, out: Any) -> None:
    if isinstance(z, np.ndarray):
        np.exp(z, out)
    else:
        torch.multiply(z, torch.tensor(LOG2E, dtype=z.dtype), out=out)
        torch.exp2(out, out=out)  # in less than half the time, and with digits enough


def _complement(of: Any, p: Any, top: Any, out: Any) -> None:
    """1 - p with all its digits: that of the top class is the sum of the others, and never 0."""
    flat = p.ravel()
    own = flat[top]
    flat[top] = 0.0
    others = row_sums(p)
    flat[top] = own
    of.subtract(of.ones_like(p[0, 0]), p, out=out)
    out.ravel()[top] = others + TINY


def _add_product(table: Any, a: Any, b: Any, factor: float) -> None:
    """``factor`` a b, added to a table."""
    if isinstance(table, np.ndarray):
        more = a * b
        more *= factor
        table += more
    else:
        table.addcmul_(a, b, value=factor)


def _fill_focal(of: Any, z: Any, out: Any, work: Any, gamma: float, detach: bool) -> None:
    """p, 1 - p and FL_k of every class into ``work``, and the derivatives of FL_k in s_k = -log p_k into ``out``."""
    (p, c, terms), top = work, tops(z)
    _softmax(z, p)
    _complement(of, p, top, c)
    of.subtract((z.ravel()[top] - of.log1p(-c.ravel()[top]))[:, None], z, out=terms)  # s_k = -log p_k
    if gamma == 0.5:
        of.sqrt(c, out=out)  # a power takes several times as long
    else:
        out[:] = c**gamma
    terms *= out
    if not detach:
        of.divide(terms, c, out=c)
        _add_product(out, c, p, gamma)  # d terms_k / d s_k


def _normalise_slopes(out: Any, p: Any, at: Any, ratio: Any, total: Any, scale: float) -> None:
    """Turn slopes of terms in s_k into ``scale`` times the gradient of a loss of slopes ([k = y] - ratio) / total."""
    own = out.ravel()[at]
    out *= (scale * ratio / total)[:, None]
    out.ravel()[at] -= scale * own / total  # now -d loss / d s_k
    _add_product(out, p, row_sums(out)[:, None], -1.0)


def _nfl(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any, gamma: float, detach: bool) -> Any:
    _fill_focal(of, z, out, work, gamma, detach)
    p, _, terms = work
    total = row_sums(terms)
    losses = terms.ravel()[at] / total
    _normalise_slopes(out, p, at, losses, total, scale)
    return losses + 0.0 * total  # NaN where the sum has no number


def _nnfl(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any, gamma: float, floor: float, detach: bool) -> Any:
    _fill_focal(of, z, out, work, gamma, detach)
    p, _, terms = work
    most = highest_focal(gamma, floor)
    low = terms > most  # there p_k < floor
    terms[low], out[low] = most, 0.0
    total = z.shape[1] * most - row_sums(terms)
    ratio = (most - terms.ravel()[at]) / total
    _normalise_slopes(out, p, at, ratio, total, scale)
    return 1.0 - ratio


def _nnce(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any, floor: float) -> Any:
    return _nnfl(of, z, at, scale, out, work, gamma=0.0, floor=floor, detach=True)


def _mse(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any) -> Any:
    p, share = work[0], 1.0 / z.shape[1]
    _softmax(z, p)
    squares, own = row_sums(of.multiply(p, p, out=out)), p.ravel()[at]
    of.multiply(p, p + (own - squares)[:, None], out=out)
    out.ravel()[at] -= own
    out *= 2.0 * scale * share
    return share * (squares + 1.0 - 2.0 * own)


def _nlnl(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any, draws: int) -> Any:
    p, rest, _ = work
    _softmax(z, p)
    _complement(of, p, tops(z), rest)
    share = draws / (z.shape[1] - 1)
    rest.ravel()[at] = 1.0  # the given class has no part in it
    of.divide(p, rest, out=out)
    if rest.min() < LEAST:
        clipped = rest < LEAST
        rest[clipped], out[clipped] = LEAST, 0.0
    out.ravel()[at] = 0.0
    _add_product(out, p, row_sums(out)[:, None], -1.0)
    out *= scale * share
    return -share * of.log(rest.prod(1))  # the product is at least LEAST / e: the p_k sum to 1


def _logitclip(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any, clip: float, mode: str) -> Any:
    some = of.multiply(z, z, out=work[0])
    norm = of.sqrt(row_sums(some))
    beyond = norm > (clip if mode == "paper" else 1.0 / clip)
    norm[~beyond] = clip  # short logits are scaled by 1
    shrunk = clip / norm
    _softmax(of.multiply(z, shrunk[:, None], out=some), out)
    losses = -of.log(out.ravel()[at]) + 0.0 * norm  # NaN where the norm has no number
    out.ravel()[at] -= 1.0
    out *= (scale * shrunk)[:, None]
    inward = row_sums(of.multiply(out, z, out=some)) * beyond / (norm * norm)
    _add_product(out, z, inward[:, None], -1.0)
    return losses


def _ldr_kl(of: Any, z: Any, at: Any, scale: float, out: Any, work: Any, temperature: float, margin: float) -> Any:
    classes, (exp, positive, some) = z.shape[1], work
    _exp(z, exp)
    of.log1p(exp, out=positive)  # softplus, of which f is K times the share in the row
    per = classes / row_sums(positive)
    _softmax(of.multiply(positive, (per / temperature)[:, None], out=some), out)
    own = out.ravel()[at]
    discount = math.expm1(-margin / temperature) * own  # the given class has no margin
    out *= (scale * per / (1.0 + discount))[:, None]
    out.ravel()[at] += (
        scale * per * (discount / (1.0 + discount) - 1.0)
    )  # d / d softplus_k, but for its part in the sum
    out -= (row_sums(of.multiply(positive, out, out=some)) * per / classes)[:, None]
    out *= exp
    exp += 1.0
    out /= exp
    return margin + temperature * of.log((1.0 + discount) / (own * classes))


GRADIENTS: dict[str, Callable[..., Any]] = {
    "mse": _mse,
    "nfl": _nfl,
    "nnce": _nnce,
    "nnfl": _nnfl,
    "nlnl": _nlnl,
    "logitclip": _logitclip,
    "ldr-kl": _ldr_kl,
}
