"""How a run trains: on which labels, with which method, and what becomes of the network; a method may decide itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from antidote_learn.data.prepared import Prepared
from antidote_learn.registry import MethodSpec


def keep_network(net: nn.Module) -> nn.Module:
    """The network itself, where nothing is added to it."""
    return net


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The plan of a training.

    A recipe with a function ``plan_training(trainer, folder)`` makes one before the training. What takes long it keeps
    in the run's folder, so that a resumed run has the same plan.

    Attributes:
        data: The data with the labels to train on.
        method: The method of the network.
        rate: The record of the estimated noise rate; None where none was estimated.
        combine: The function that gives the model from the trained network.
        model: The model where no network is trained; else None.
        decision: What was decided, for the summary; empty where there was nothing to decide.
    """

    data: Prepared
    method: MethodSpec
    rate: dict[str, Any] | None = None
    combine: Callable[[nn.Module], nn.Module] = keep_network
    model: nn.Module | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)
