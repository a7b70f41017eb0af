"""A device's engine, or an error before anything is trained."""

from __future__ import annotations

from antidote_learn.training.engine import Engine


def engine_on(device: str) -> Engine:
    """The engine on a device; ValueError where there is no such device."""
    try:
        return Engine(accelerator=device)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"device {device!r} cannot be used here ({error}): take 'auto' or 'cpu'") from error
