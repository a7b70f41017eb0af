"""The best reweighting of samples by total variation: the inner problem of Rockafellian relaxation, solved exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from antidote_learn._checks import check_number
from antidote_learn.core.tensors import check_losses


def total_variation_weights(losses: Tensor, *, rate: float | None = None, penalty: float | None = None) -> Tensor:
    """(N,) weights of mean 1, N times the distribution q that minimises the mean loss near the uniform one.

    Near means a total variation, half of ``|q - 1/N|_1``, of at most ``rate``; or ``penalty`` times ``|q - 1/N|_1`` is
    added to the mean loss. Mass leaves the largest losses and arrives at the smallest; equal losses have equal weights.
    Limits: a rate of 0 gives ones; a rate of 1 or a penalty of 0 leaves the smallest losses alone.

    Args:
        losses: (N,) finite or +inf.
        rate: The share of the mass that may move, in [0, 1]; the last sample that it leaves may keep a part.
        penalty: The price of moving mass, >= 0: a loss that is above the smallest by more than twice it is forgotten.

    Example:
        >>> losses = torch.tensor([0.1, 3.0, 0.2, 0.3])
        >>> total_variation_weights(losses, rate=0.25)
        tensor([2., 0., 1., 1.])
        >>> total_variation_weights(losses, penalty=0.06)
        tensor([3., 0., 1., 0.])
    """
    check_losses(losses)
    values = losses.to(torch.promote_types(losses.dtype, torch.float32))
    if bad := int((values.isnan() | (values == -torch.inf)).sum()):
        raise ValueError(
            f"losses must be finite or +inf, got {bad} NaN or -inf among {len(values)}; look at the inputs"
        )
    if rate is not None and penalty is None:
        kept = _ball_shares(values, check_number("rate", rate, 0.0))
    elif penalty is not None and rate is None:
        is_dear = values - values.min() > 2.0 * check_number("penalty", penalty, 0.0)  # false where all are infinite
        kept = (~is_dear).to(values.dtype)
    else:
        raise ValueError(f"give one of rate and penalty, got rate={rate!r} and penalty={penalty!r}")
    smallest = values == values.min()
    return kept + smallest * ((1.0 - kept).sum() / smallest.sum())


def _ball_shares(values: Tensor, rate: float) -> Tensor:
    """(N,) the share of its mass that each sample keeps when a share of all mass leaves the largest values."""
    if rate > 1.0:
        raise ValueError(f"rate must be in [0, 1], got {rate!r}; 20 % is 0.2")
    count, leaving = len(values), rate * len(values)
    edge = values.kthvalue(count - min(int(leaving), count - 1)).values  # the last value that mass leaves, or the next
    above, level = values > edge, values == edge
    part = 1.0 - (leaving - int(above.sum())) / int(level.sum())
    return torch.where(level, part, (~above).to(values.dtype))
