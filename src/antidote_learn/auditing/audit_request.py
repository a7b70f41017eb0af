"""The request for an audit, and the checks of it that need neither the data nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antidote_learn.auditing.cuts import Cut
from antidote_learn.auditing.own_judges import check_judges
from antidote_learn.data.encoders import check_encoder
from antidote_learn.data.load import check_out, data_kind
from antidote_learn.data.noise_grammar import parse_noise
from antidote_learn.data.text_forms import text_form
from antidote_learn.models import split_model
from antidote_learn.training.resolve import COLUMNS
from antidote_learn.training.settings import check_seeds, resolve_settings

COLUMNLESS = "`with_columns` carries the columns of a table, and these data have none: leave it out"

if TYPE_CHECKING:
    from torch import nn

    from antidote_learn.training.progress import Reporter


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditRequest:
    """The arguments of `audit`, which explains them."""

    X: Any
    y: Any = None
    label: str | None
    text: Sequence[str]
    image: str | None
    exclude: str | Sequence[str]
    features: str | Sequence[str]
    encoder: str
    noise: str
    noise_seed: int | None
    subset: int | None
    model: str | nn.Module | None
    epochs: int
    judges: Sequence[Any] = ()
    flag: int | None
    max_flagged: int | None
    fdr: float | None
    seed: int
    out: str | Path | None
    with_columns: bool
    resume: bool
    data_root: str | Path | None
    download: bool
    strict: bool
    encoding: str | None
    separator: str | None
    decimal: str | None
    reporter: Reporter | None

    @property
    def data(self) -> Any:
        """The data as `train` takes them."""
        return self.X if self.y is None else (self.X, self.y)

    @property
    def cut(self) -> Cut:
        """The wish how many rows to flag."""
        return Cut(self.flag, self.max_flagged, self.fdr)

    @property
    def columns(self) -> dict[str, Any]:
        """The arguments about columns and form of a table; ValueError where a form is none."""
        names = {name: getattr(self, name) for name in COLUMNS}
        return {**names, "form": text_form(self.encoding, self.separator, self.decimal)}

    @property
    def own_noise_seed(self) -> int:
        """The seed of the noise: the audit's own if none was given."""
        return self.seed if self.noise_seed is None else self.noise_seed


def check_audit(asked: AuditRequest) -> None:
    """Checks all that can be checked before the data are read.

    Raises:
        ValueError: Bad arguments.
        FileNotFoundError: Missing data.
    """
    Cut(asked.flag, asked.max_flagged, asked.fdr)
    check_judges(asked.judges)
    parse_noise(asked.noise)
    check_encoder(asked.encoder)
    check_seeds(asked.seed, asked.own_noise_seed)
    resolve_settings(None, {"epochs": asked.epochs})
    if isinstance(asked.model, str):
        split_model(asked.model)
    if asked.out is not None:
        check_out(asked.out, data=asked.X)
    kind = data_kind(asked.data, **asked.columns)
    if asked.with_columns and kind in ("name", "folder", "npz"):
        raise ValueError(COLUMNLESS)
