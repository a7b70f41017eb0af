"""The learning rate as a function of how far training is."""

from __future__ import annotations

import math
from collections.abc import Callable

ACCEPTED = "'constant', 'cosine', 'step:E1,E2,...' (a tenth from each of these epochs on), 'exponential:FACTOR'"


def parse_schedule(text: str, *, epochs: int) -> Callable[[float], float]:
    """Reads a schedule of the learning rate.

    Args:
        text: The schedule, in one of the forms in `ACCEPTED`.
        epochs: The number of epochs that the schedule was written for.

    Returns:
        A function from u in [0, 1], the share of training that is done, to the factor on the learning rate.

    Example:
        >>> factor = parse_schedule("step:100", epochs=120)
        >>> factor(0.5), factor(0.9)
        (1.0, 0.1)
    """
    kind, _, rest = text.partition(":")
    try:
        if kind == "step" and rest:
            milestones = [float(part) / epochs for part in rest.split(",")]
            return lambda u: 0.1 ** sum(u >= milestone - 1e-9 for milestone in milestones)
        if kind == "exponential" and 0.0 < float(rest) < math.inf:
            base = float(rest)
            return lambda u: float(base ** (u * epochs))
    except ValueError:
        pass
    else:
        if text == "constant":
            return lambda u: 1.0
        if text == "cosine":
            return lambda u: 0.5 * (1.0 + math.cos(math.pi * u))
    raise ValueError(f"unknown schedule {text!r}; accepted: {ACCEPTED}")


def learning_rate(
    lr: float, factor: Callable[[float], float], *, epoch: int, within: float, epochs: int, warmup: float
) -> float:
    """The learning rate of a step.

    Args:
        lr: The initial learning rate.
        factor: The schedule, as `parse_schedule` gives it; its factor changes once an epoch.
        epoch: The epoch, from 0.
        within: The share of the epoch that is done, in [0, 1); only the warm-up depends on it.
        epochs: The number of epochs that the schedule covers.
        warmup: The number of epochs over which the rate rises linearly from 0.
    """
    rise = min(1.0, (epoch + within) / warmup) if warmup > 0.0 else 1.0
    return lr * factor(epoch / epochs) * rise
