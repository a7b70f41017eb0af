"""Everything that determines a run, as it is written to spec.json and compared when a run is continued."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import torch

from antidote_learn._version import __version__
from antidote_learn.training.checkpoint import FORMAT, read_json, write_json

SPEC = "spec.json"
REMARKS = ("preset_note",)  # what a spec says and no number depends on: a run without it may be continued with it


@dataclass(frozen=True)
class Spec:
    """A run. Two runs with the same spec on the same machine end with the same numbers.

    A field that came after the first runs of this format has a default: what those runs did, as they do not name it.
    """

    data: str
    data_hash: str
    classes: int
    samples: int
    subset: int | None
    noise: str
    noise_seed: int
    method: str
    protocol: str
    model: str
    optimizer: str
    lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    schedule: str
    schedule_epochs: int
    warmup: float
    clip: float
    epochs: int
    batch_size: int
    recipe: str
    augment: bool
    seed: int
    devices: int
    nodes: int
    precision: str
    text_features: str = "tfidf"
    labels: str = ""
    preset_note: str = ""
    kind: ClassVar[str] = "run"
    article: ClassVar[str] = "a"


def environment() -> dict[str, Any]:
    """What else numbers depend on."""
    return {
        "package": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }


def write_spec(folder: Path, spec: Any) -> None:
    """spec.json of a `Spec`, or of a record like it."""
    write_json(folder / SPEC, {"format": FORMAT, spec.kind: asdict(spec), "environment": environment()})


def read_spec(folder: Path, record: Any = Spec) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what determined it, environment) of spec.json."""
    stored = read_json(folder / SPEC)
    if stored.get("format") != FORMAT or not isinstance(stored.get(record.kind), dict):
        raise ValueError(
            f"{folder / SPEC} is no spec of format {FORMAT} of {record.article} {record.kind}: use the package "
            "that made it, or choose another folder"
        )
    later = {field.name: field.default for field in fields(record) if field.default is not MISSING}
    where = stored.get("environment")
    return later | stored[record.kind], where if isinstance(where, dict) else {}


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What differs, a phrase each."""
    names = sorted({*stored, *wanted} - {*REMARKS})
    return [
        f"{name} is {stored.get(name)!r} there, {wanted.get(name)!r} now"
        for name in names
        if stored.get(name) != wanted.get(name)
    ]


def shared(source: Any, target: Any, *, but: Sequence[str]) -> dict[str, Any]:
    """What two records have in common, of the first."""
    names = {field.name for field in fields(source)} & {field.name for field in fields(target)}
    return {name: getattr(source, name) for name in sorted(names - set(but))}
