"""Named settings as data: training protocols, and the losses of the paper's tables."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SOURCE = "the paper's appendix on hyper-parameters"
KINDS = {"pair": "asymmetric", "adversarial": "asymmetric"}  # kinds of noise without cases of their own


@dataclass(frozen=True)
class Case:
    """A row of a table on one data set: the loss, and where it holds.

    Attributes:
        row: The table's name for it: "NCE+MAE".
        data: The data set.
        loss: As it is written for `antidote_learn.loss`, or a method.
        source: Where the figures stand.
        noise: The kind of noise; "" for any.
        rates: Its rates; none for any.
        code: What the released code does, where that differs.
    """

    row: str
    data: str
    loss: str
    source: str
    noise: str = ""
    rates: tuple[float, ...] = ()
    code: str = ""


def read(name: str) -> dict[str, Any]:
    """A file of presets."""
    return tomllib.loads(files("antidote_learn.presets").joinpath(name).read_text(encoding="utf-8"))


@cache
def cases() -> tuple[Case, ...]:
    """All rows of losses.toml, in its order."""
    return tuple(
        Case(row, data, **{"source": entry.get("source", SOURCE), **case, "rates": tuple(case.get("rates", ()))})
        for row, entry in read("losses.toml").items()
        for data, listed in entry["cases"].items()
        for case in listed
    )


def preset(row: str, *, data: str = "cifar10", noise: str = "symmetric") -> Case:
    """The case of a paper's row for a data set and a noise, as the command line writes it ("symmetric:0.4").

    A data set without a case of its own has those of cifar10.

    Example:
        >>> preset("NCE+MAE").loss
        'nce+0.5*mae'
        >>> preset("CE+LC", noise="symmetric:0.8").loss
        'logitclip:clip=1.5:mode=reference'
    """
    known = [case for case in cases() if case.row.lower() == row.lower()]
    if not known:
        rows = ", ".join(dict.fromkeys(case.row for case in cases()))
        raise ValueError(f"unknown preset {row!r}; accepted: {rows}")
    base = re.sub(r"^(cifar100?)n.*", r"\1", data)
    here = [case for case in known if case.data == base.removeprefix("fashion-")]
    here = here or [case for case in known if case.data == "cifar10"]
    kind, _, rest = noise.partition(":") if base == data or noise != "none" else ("human", "", "")
    rate = re.match(r"[\d.]+", rest)
    return _fitting(here, KINDS.get(kind, kind), float(rate.group()) if rate else math.nan)


def _fitting(here: list[Case], kind: str, rate: float) -> Case:
    """The case of this kind with the nearest rate, else one for any noise, else the first."""
    same = [case for case in here if case.noise == kind]
    if same and math.isfinite(rate):
        return min(same, key=lambda case: min((abs(r - rate) for r in case.rates), default=0.0))
    if same:
        return same[0]
    return next((case for case in here if not case.noise), here[0])
