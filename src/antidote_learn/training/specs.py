"""The spec of a run: everything that determines the run, as spec.json holds it for a run that is continued."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import torch

from antidote_learn._types import LabelColumn
from antidote_learn._version import __version__
from antidote_learn.data.feature_columns import column_list
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.training.checkpoint import FORMAT, read_json, write_json

SPEC = "spec.json"  # the name of the file of a spec
REMARKS = (
    "preset_note",
    "label",
)  # the fields of a spec that no number depends on; they may differ when a run is continued


@dataclass(frozen=True)
class Spec:
    """The settings of a run; two runs with the same spec on the same machine end with the same numbers.

    A field that was added after the first runs of this format has a default, which says what those runs did.
    """

    data: str
    data_hash: str
    classes: int
    samples: int
    subset: int | None
    noise: str
    noise_seed: int
    method: str
    settings: TrainingSettings
    augment: bool
    devices: int
    nodes: int
    precision: str
    text_features: str = "tfidf"
    labels: str = ""
    preset_note: str = ""
    holdout: float | None = None
    snapshots: str = ""
    label: str = ""
    exclude: str = ""
    features: str = ""
    kind: ClassVar[str] = "run"
    article: ClassVar[str] = "a"
    unwritten: ClassVar[tuple[str, ...]] = ()


def spec_fields(spec: Any) -> dict[str, Any]:
    """The fields of a `Spec`, or of a record like it, as spec.json holds them: the settings stand among the others."""
    own = asdict(spec)
    own |= own.pop("settings")
    return {name: value for name, value in own.items() if name not in spec.unwritten}


def columns_of(asked: Any, label: LabelColumn | None) -> dict[str, Any]:
    """The fields of a `Spec` on the columns of a table, by the request for it and the column of its labels."""
    named = {name: ", ".join(column_list(getattr(asked, name))) for name in ("exclude", "features")}
    return {"label": "" if label is None else label.name, **named}


def label_summary(label: LabelColumn | None) -> dict[str, Any]:
    """The entries of a summary on the column of the labels; none where the data is no table."""
    return {} if label is None else {"label": label.name, "label_is_guess": label.is_guess}


def label_sentence(summary: Mapping[str, Any]) -> str:
    """A sentence on which column is the label; "" where a summary names none."""
    if "label" not in summary:
        return ""
    column = f"The label is column {str(summary['label'])!r}"
    return f"{column}, a guess by its name: `label` names another." if summary.get("label_is_guess") else f"{column}."


def environment() -> dict[str, Any]:
    """The versions and the threads that numbers depend on beside the spec."""
    return {
        "package": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }


def write_spec(folder: Path, spec: Any) -> None:
    """Writes the spec.json of a `Spec`, or of a record like it."""
    write_json(folder / SPEC, {"format": FORMAT, spec.kind: spec_fields(spec), "environment": environment()})


def read_spec(folder: Path, record: Any = Spec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads the fields of a spec, and the environment, from spec.json."""
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
    """The differences between two records, a phrase for each."""
    names = sorted({*stored, *wanted} - {*REMARKS})
    return [
        f"{name} is {stored.get(name)!r} there, {wanted.get(name)!r} now"
        for name in names
        if stored.get(name) != wanted.get(name)
    ]
