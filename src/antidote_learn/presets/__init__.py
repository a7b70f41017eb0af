"""Settings as data: training protocols, and the losses of the paper's tables."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

SOURCE = "the paper's appendix on hyper-parameters"  # the source of a row that names none
KINDS = {
    "pair": "asymmetric",
    "one-sided": "asymmetric",
    "adversarial": "asymmetric",
}  # kinds of noise that take the cases of another


@dataclass(frozen=True)
class PresetCase:
    """A row of a table on one data set: its loss, and the noise it is for.

    Attributes:
        row: The row's name in the table, as "NCE+MAE".
        data: The data set.
        loss: The loss as `antidote_learn.loss` reads it, or a method.
        source: The place where its figures are published.
        noise: The kind of noise; "" for any.
        rates: The rates of the noise; none for any.
        code: The values of the released code, where they differ.
        note: A sentence for a request that nothing is published for; "" where the case fits.
    """

    row: str
    data: str
    loss: str
    source: str
    noise: str = ""
    rates: tuple[float, ...] = ()
    code: str = ""
    note: str = ""


def read_presets(name: str) -> dict[str, Any]:
    """Read a file of presets."""
    return tomllib.loads(files("antidote_learn.presets").joinpath(name).read_text(encoding="utf-8"))


@cache
def cases() -> tuple[PresetCase, ...]:
    """All rows of losses.toml, in its order."""
    return tuple(
        PresetCase(row, data, **{"source": entry.get("source", SOURCE), **case, "rates": tuple(case.get("rates", ()))})
        for row, entry in read_presets("losses.toml").items()
        for data, listed in entry["cases"].items()
        for case in listed
    )


def base_data(data: str) -> str:
    """The data set that shares its images with ``data``: ``cifar10n-worse`` is cifar10 with other labels."""
    return re.sub(r"^(cifar100?)n.*", r"\1", data)


def cases_on(row: str, data: str) -> list[PresetCase]:
    """The cases of a row on a data set, or on cifar10 where it has none.

    Raises:
        ValueError: There is no such row.
    """
    known = [case for case in cases() if case.row.lower() == row.lower()]
    if not known:
        raise ValueError(f"unknown preset {row!r}; accepted: {', '.join(row_names())}")
    here = [case for case in known if case.data == base_data(data).removeprefix("fashion-")]
    return here or [case for case in known if case.data == "cifar10"]


def row_names() -> list[str]:
    """The names of all rows, in the order of the file."""
    return list(dict.fromkeys(case.row for case in cases()))


def preset(row: str, *, data: str = "cifar10", noise: str = "symmetric") -> PresetCase:
    """The case of a paper's row for a data set and a noise, as the command line writes it ("symmetric:0.4").

    Where nothing is published for them, the nearest case stands in, and its ``note`` says so.

    Example:
        >>> preset("NCE+MAE").loss
        'nce+0.5*mae'
        >>> preset("CE+LC", noise="symmetric:0.8").loss
        'logitclip:clip=1.5:mode=reference'
        >>> preset("NCE+MAE", data="digits").note
        "preset:NCE+MAE has no published values for the data 'digits': it takes those for cifar10"
    """
    base = base_data(data)
    kind, rate = _kind_and_rate(noise)
    if base != data and kind == "none":
        kind = "human"
    case = _nearest_case(cases_on(row, base), KINDS.get(kind, kind), rate)
    return replace(case, note=_note(case, base, kind, rate))


def _kind_and_rate(noise: str) -> tuple[str, float]:
    """The kind and the rate of a noise, NaN where it has no rate; a rate of 0 is no noise."""
    kind, _, rest = noise.strip().partition(":")
    try:
        rate = float(rest.split(":")[0])
    except ValueError:
        rate = math.nan
    return ("none", 0.0) if rate == 0.0 or kind == "none" else (kind, rate)


def _nearest_case(here: list[PresetCase], kind: str, rate: float) -> PresetCase:
    """The case of this kind with the nearest rate, else one for any noise, else the first symmetric one."""
    same = [case for case in here if case.noise == kind]
    if same and math.isfinite(rate):
        return min(same, key=lambda case: min((abs(r - rate) for r in case.rates), default=0.0))
    return same[0] if same else for_other_noise(here)


def for_other_noise(here: list[PresetCase]) -> PresetCase:
    """The case for a kind of noise that has none of its own: one for any noise, else the first symmetric one."""
    return next((case for kind in ("", "symmetric") for case in here if case.noise == kind), here[0])


def _note(case: PresetCase, data: str, kind: str, rate: float) -> str:
    """A sentence that says what the case has no values for, and whose values it takes."""
    lacking = [] if data == case.data else [f"the data {data!r}" if data else "this data"]
    there = case.data
    if case.noise:
        other = kind != case.noise
        far = not other and bool(case.rates) and math.isfinite(rate) and rate not in case.rates
        lacking += [f"{kind} noise"] if other else [f"{kind} noise of {rate:g}"] if far else []
        rates = f" of {' and '.join(map(str, case.rates))}" if case.rates else ""
        there += f" with {case.noise} noise{rates}" if other or far else ""
    if not lacking:
        return ""
    return f"preset:{case.row} has no published values for {' and '.join(lacking)}: it takes those for {there}"
