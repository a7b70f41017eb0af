"""First step of a run: it resolves the names of a request, and refuses all that can be refused without the data.

Torch is imported last, to try the method's parameters; a bad name, option or path is refused without torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antidote_learn._checks import check_whole
from antidote_learn.data.load import check_out, data_kind
from antidote_learn.data.noise_grammar import parse_noise
from antidote_learn.data.posterior import check_audit_folder
from antidote_learn.data.sentences import check_text_features
from antidote_learn.data.text_forms import text_form
from antidote_learn.models import split_model
from antidote_learn.presets.aliases import expand_name
from antidote_learn.registry import MethodSpec, check_method, method_of, with_budget
from antidote_learn.training.given_transitions import asks_for_injected, check_source
from antidote_learn.training.settings import check_seeds, resolve_settings

if TYPE_CHECKING:
    from torch import nn

    from antidote_learn._types import Arrays
    from antidote_learn.training.progress import Reporter

FOLDERS = "runs"  # the folder of the runs that are given no folder
PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}  # the precisions, with the engine's names
# The arguments that override a protocol.
SETTINGS = ("epochs", "batch_size", "lr", "optimizer", "weight_decay", "schedule", "warmup", "clip")
COLUMNS = ("label", "text", "image", "exclude", "features")  # the arguments about columns of a table
MOST_ROWS, MOST_WORKERS, MOST_NODES = 2**40, 256, 10**5  # the largest subset, workers and nodes that are accepted
MOST_HELD_OUT = 0.5  # the largest share of the training samples that may be held out
MOST_DEVICES = 8  # the number of devices that is accepted on every machine


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of `train`, where they are explained."""

    data: str | Path | Arrays | Sequence[Any]
    method: Any = None
    labels: str | Path | None = None
    noise_rate: float | str | None = "auto"
    delta: float | None = None
    penalty: float | None = None
    noise: str = "none"
    noise_seed: int | None = None
    label: str | None = None
    text: Sequence[str] = ()
    image: str | None = None
    exclude: str | Sequence[str] = ()
    features: str | Sequence[str] = ()
    text_features: str = "tfidf"
    test: str | Path | None = None
    subset: int | None = None
    holdout: float | None = None
    snapshots: str | Sequence[int] = ()
    model: str | nn.Module | None = None
    protocol: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    optimizer: str | None = None
    weight_decay: float | None = None
    schedule: str | None = None
    warmup: float | None = None
    clip: float | None = None
    augment: bool = True
    seed: int = 0
    out: str | Path | None = None
    resume: bool = False
    devices: int = 1
    nodes: int = 1
    precision: str = "32"
    workers: int = 2
    data_root: str | Path | None = None
    download: bool = False
    strict: bool = False
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    reporter: Reporter | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The arguments about columns and form of a table; ValueError where a form is none."""
        names = {name: getattr(self, name) for name in COLUMNS}
        return {**names, "form": text_form(self.encoding, self.separator, self.decimal)}

    @property
    def own_noise_seed(self) -> int:
        """The seed of the noise: the run's seed where no other was given."""
        return self.seed if self.noise_seed is None else self.noise_seed

    @property
    def data_name(self) -> str:
        """The name by which presets know the data; "" for data in memory."""
        return str(self.data) if isinstance(self.data, (str, Path)) else ""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that override the protocol, None where they were not given."""
        return {name: getattr(self, name) for name in SETTINGS}


@dataclass(frozen=True, eq=False)
class ResolvedRequest:
    """A request that was checked as far as possible without its data.

    Attributes:
        asked: The request.
        method: The method with its budget.
        settings: The settings that override the protocol.
    """

    asked: Request
    method: MethodSpec
    settings: dict[str, Any]


def resolve_request(asked: Request) -> ResolvedRequest:
    """Resolves names and checks options, without the data.

    Raises:
        ValueError: Bad arguments.
        FileNotFoundError: Missing data.
    """
    _check_numbers(asked)
    parse_noise(asked.noise)
    check_text_features(asked.text_features)
    if asked.precision not in PRECISIONS:
        raise ValueError(f"unknown precision {asked.precision!r}; accepted: {', '.join(PRECISIONS)}")
    settings = resolve_settings(asked.protocol, asked.settings)
    if isinstance(asked.model, str):
        split_model(asked.model)
    check_out(FOLDERS if asked.out is None else asked.out, data=asked.data, test=asked.test)
    if asked.labels is not None:
        check_audit_folder(Path(asked.labels))
    method = method_for(asked)
    data_kind(asked.data, test=asked.test, **asked.columns)
    check_method(method)
    return ResolvedRequest(asked, method, settings)


def method_for(asked: Request, *, default: str = "antidote") -> MethodSpec:
    """The method of a request with its budget; ``default`` where the request names none."""
    name = asked.method or default
    given = expand_name(name, data=asked.data_name, noise=asked.noise) if isinstance(name, str) else name
    rate = None if asked.noise_rate == "auto" else asked.noise_rate
    method = with_budget(
        method_of(given),
        {"noise_rate": rate, "delta": asked.delta, "penalty": asked.penalty},
    )
    check_injected(method, asked.noise)
    check_source(method)
    return method


def check_injected(method: MethodSpec, noise: str) -> None:
    """Raises ValueError where the method asks for the rate or the matrix of injected noise, and none is injected."""
    if parse_noise(noise).kind != "none":
        return
    if method.rate == "injected":
        raise ValueError("noise_rate=injected needs noise that was injected: add `noise`, or give a rate")
    if asks_for_injected(method):
        raise ValueError(
            "transition=injected needs noise that was injected: add `noise`, or name an estimator or a file"
        )


def _check_numbers(asked: Request) -> None:
    check_seeds(asked.seed, asked.own_noise_seed)
    if asked.subset is not None:
        check_whole("subset", asked.subset, 1, MOST_ROWS)
    if asked.holdout is not None and not 0.0 < asked.holdout <= MOST_HELD_OUT:
        raise ValueError(f"holdout must be a share above 0 and up to {MOST_HELD_OUT}, got {asked.holdout!r}")
    if asked.holdout is not None and asked.test is not None:
        raise ValueError("give one of test and holdout: the samples that are held out take the place of the test")
    parse_snapshots(asked.snapshots)
    check_whole("workers", asked.workers, 0, MOST_WORKERS)
    check_whole("devices", asked.devices, 1, _most_devices(asked.devices))
    check_whole("nodes", asked.nodes, 1, MOST_NODES)


def parse_snapshots(given: str | Sequence[int]) -> tuple[int, ...]:
    """The epochs after which all training samples are scored, in order: a sequence, or a text such as "50,100".

    Raises:
        ValueError: It holds anything but whole numbers from 1 on.
    """
    parts = [part for part in given.split(",") if part.strip()] if isinstance(given, str) else list(given)
    try:
        epochs = sorted({int(part) for part in parts})
    except (TypeError, ValueError) as error:
        raise ValueError(f"snapshots must be epochs such as '50,100', got {given!r}") from error
    if epochs and epochs[0] < 1:
        raise ValueError(f"snapshots must be epochs from 1 on, got {given!r}")
    return tuple(epochs)


def _most_devices(wanted: int) -> int:
    """The most devices that are accepted; torch counts accelerators only if the cores are too few."""
    cores = max(MOST_DEVICES, os.cpu_count() or 1)
    if wanted in range(cores + 1):
        return cores
    import torch

    return max(cores, torch.cuda.device_count())
