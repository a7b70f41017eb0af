"""`antidote list` shows methods, data, models and more that users choose by name."""

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antidote_learn.presets import PresetCase

Value = str | float | bool | None
Row = dict[str, Value]

_FORMULAS = {
    "kl": "w log w",
    "chi2": "(w^2 - 1) / 2",
    "js": "(w log w - (w + 1) log((w + 1) / 2)) / 2",
    "hellinger": "(sqrt(w) - 1)^2 / 2",
    "alpha:A": "(w^A - 1) / (A (A - 1)), A > 1",
}


def _divergence_rows() -> list[Row]:
    from antidote_learn.core.divergences import DIVERGENCES, alpha

    named = [*DIVERGENCES.items(), ("alpha:A", alpha(1.5))]  # the listed columns are the same for any A > 1
    return [
        {
            "name": name,
            "f": _FORMULAS[name],
            "max_delta": None if math.isinf(record.max_delta) else record.max_delta,
            "forgets_exactly": math.isfinite(record.vanishing_score),
        }
        for name, record in named
    ]


def _loss_rows() -> list[Row]:
    from antidote_learn.core.losses import LOSSES
    from antidote_learn.core.losses.grammar import format_value

    return [
        {
            "name": name,
            "parameters": ":".join(f"{key}={format_value(value)}" for key, value in loss.parameters.items()) or "none",
            "about": loss.about,
            "reference": loss.reference,
        }
        for name, loss in LOSSES.items()
    ]


def preset_losses(data: str) -> list[Row]:
    """Returns the rows of the paper's tables on a data set, with the cases they stand in for."""
    from antidote_learn.data.builtin import DATA
    from antidote_learn.presets import cases, cases_on, row_names

    known = list(dict.fromkeys([*(case.data for case in cases()), *DATA]))
    if data not in known:
        raise ValueError(f"there are no presets for {data!r}; accepted: {', '.join(known)}")
    return [
        {
            "name": f"preset:{case.row}",
            "noise": " ".join([case.noise or "any", *map(str, case.rates)]),
            "loss": case.loss,
            "stands in for": _stand_ins(case, here, data),
            "released code": case.code or "the same",
            "source": case.source,
        }
        for here in (cases_on(row, data) for row in row_names())
        for case in here
    ]


def _stand_ins(case: "PresetCase", here: "list[PresetCase]", data: str) -> str:
    """Names the data and noises that a run takes the case for though nothing is published about them."""
    from antidote_learn.presets import base_data, for_other_noise

    foreign = [] if case.data == base_data(data) else [f"{data} (published for {case.data})"]
    other = ["noise that is not listed"] if case.noise and case is for_other_noise(here) else []
    return ", ".join(foreign + other) or "nothing"


def _method_rows() -> list[Row]:
    from antidote_learn.methods.parameters import method_card, parameters_of
    from antidote_learn.registry import known_recipe, method_names

    found = {name: recipe for name in method_names() if (recipe := known_recipe(name)) is not None}
    named: list[Row] = [
        {"name": name, "about": method_card(recipe).about, "parameters": ", ".join(parameters_of(recipe)) or "none"}
        for name, recipe in found.items()
    ]
    return [*named, *({key: row[key] for key in named[0]} for row in _loss_rows())]


def _data_rows() -> list[Row]:
    from antidote_learn.data.builtin import DATA

    return [{"name": name, "about": source.about} for name, source in DATA.items()]


def _model_rows() -> list[Row]:
    from antidote_learn.models import MODELS

    return [{"name": name, "about": entry.description} for name, entry in MODELS.items()]


def _noise_rows() -> list[Row]:
    from antidote_learn.data.noise_grammar import KINDS

    return [{"name": kind.usage, "about": kind.about} for kind in KINDS.values()]


def _protocol_rows() -> list[Row]:
    from antidote_learn.presets.protocols import protocols

    return [
        {
            "name": name,
            "model": protocol.settings.model,
            "optimizer": protocol.settings.optimizer,
            "lr": protocol.settings.lr,
            "schedule": protocol.settings.schedule,
            "epochs": str(protocol.settings.epochs),
            "batch": str(protocol.settings.batch_size),
            "about": protocol.about,
        }
        for name, protocol in protocols().items()
    ]


LISTS: dict[str, Callable[[], list[Row]]] = {
    "methods": _method_rows,
    "data": _data_rows,
    "models": _model_rows,
    "protocols": _protocol_rows,
    "noise": _noise_rows,
    "losses": _loss_rows,
    "divergences": _divergence_rows,
}


def print_table(rows: list[Row]) -> None:
    """Prints rows as a table on stdout; only a terminal has a width, elsewhere a row is one line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*(column.replace("_", " ") for column in rows[0]), box=None, pad_edge=False, header_style="bold")
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(_table_value(value) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 1000).print(table)


def _table_value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value or "unbounded"
