"""Whether a user's network and device can be used, asked before anything is trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from antidote_learn.models import build_model
from antidote_learn.training.engine import Engine


def check_module(module: Any, *, columns: int, classes: int) -> None:
    """ValueError unless the network gives logits (B, classes) for numbers (B, columns)."""
    net, required = build_model(module, shape=(columns,), classes=classes, seed=0).eval(), f"(B, {columns})"
    try:
        with torch.no_grad():
            logits = net(torch.zeros(2, columns))
    except Exception as error:  # whatever a module of the user's raises
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"module must take numbers {required}, as X has {columns} columns; it fails: {reason}"
        ) from error
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        received = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"module must give logits (B, {classes}) for {required}, as y has {classes} classes; received {received} "
            "for B = 2: a factory that is called with shape and classes always fits"
        )


def engine_on(device: str) -> Engine:
    """The engine; ValueError where there is no such device."""
    try:
        return Engine(accelerator=device)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"device {device!r} cannot be used here ({error}): take 'auto' or 'cpu'") from error
