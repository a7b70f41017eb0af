"""A rebuilt table as text: Markdown, LaTeX, CSV and JSON, each with the published figures beside ours."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from antidote_learn.bench.reproduction import Entry, Rebuilt
from antidote_learn.presets.paper_tables import TablePart

SCALE_NOTES = {
    "smoke": "A smoke test on the embedded digits, two epochs: no reproduction. The paper's figures are of other data.",
    "cpu": "A scaled-down protocol: the order of methods can be compared with the paper's, the figures cannot.",
    "paper": "The paper's protocol.",
}


def rebuilt_markdown(rebuilt: Rebuilt) -> str:
    """The table in Markdown: our figure, and below it the published one with the difference."""
    lines = [f"# {rebuilt.table.title}", "", *_remarks(rebuilt)]
    for part in rebuilt.table.parts:
        found, columns = rebuilt.part_entries(part.name), [c.name for c in part.scales[rebuilt.scale].columns]
        lines += ["", f"## {part.name}", "", "| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for row in part.scales[rebuilt.scale].rows:
            cells = [_with_published(found[row.name, column], "<br>") for column in columns]
            lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
        lines += ["", *_part_remarks(rebuilt, part)]
    return "\n".join(lines) + "\n"


def rebuilt_latex(rebuilt: Rebuilt) -> str:
    """The table as LaTeX tabulars for the package booktabs: our figures, with the difference to the paper's."""
    lines = [f"% {_escape_latex(line)}" for line in (rebuilt.table.title, *_remarks(rebuilt)) if line]
    for part in rebuilt.table.parts:
        found, columns = rebuilt.part_entries(part.name), [c.name for c in part.scales[rebuilt.scale].columns]
        head = " & ".join([_escape_latex(part.name), *map(_escape_latex, columns)])
        lines += [r"\begin{tabular}{l" + "r" * len(columns) + "}", r"\toprule", head + r" \\", r"\midrule"]
        for row in part.scales[rebuilt.scale].rows:
            cells = [_latex_cell(found[row.name, column]) for column in columns]
            lines.append(" & ".join([_escape_latex(row.name), *cells]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def rebuilt_csv(rebuilt: Rebuilt) -> str:
    """The table as CSV, a line for each figure."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_plain_entry(rebuilt.entries[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_plain_entry(entry) for entry in rebuilt.entries)
    return text.getvalue()


def rebuilt_json(rebuilt: Rebuilt, **more: Any) -> str:
    """The table as JSON, for programs and for the report; ``more`` says where and when it was made."""
    found = {
        "name": rebuilt.table.name,
        "title": rebuilt.table.title,
        "source": rebuilt.table.source,
        "scale": rebuilt.scale,
        "seconds": rebuilt.seconds,
        "chosen_protocols": rebuilt.chosen,
        "remarks": [line for line in _remarks(rebuilt) if line],
        "part_remarks": {
            part.name: [line for line in _part_remarks(rebuilt, part) if line] for part in rebuilt.table.parts
        },
        **more,
        "entries": [{**_plain_entry(entry), "by_seed": dict(entry.values)} for entry in rebuilt.entries],
    }
    return json.dumps(found, indent=1) + "\n"


def figure_text(entry: Entry, plus_minus: str = "±") -> str:
    """Our figure with its deviation; why it is missing, where it is."""
    if entry.mean is None:
        return "missing"
    text = f"{entry.mean:.2f}" + ("" if entry.std is None else f" {plus_minus} {entry.std:.2f}")
    return text if len(entry.values) == len(entry.cells) else f"{text} ({len(entry.values)} of {len(entry.cells)})"


def published_text(entry: Entry, plus_minus: str = "±") -> str:
    """The published figure with the difference of ours to it; "" where the paper has none."""
    known, difference = entry.published, entry.difference
    if known is None:
        return ""
    spread = "" if known.std is None else f" {plus_minus} {known.std:.2f}"
    return f"paper {known.mean:.2f}{spread}" + ("" if difference is None else f", {difference:+.2f}")


def missing_reasons(rebuilt: Rebuilt, part: TablePart) -> list[str]:
    """A sentence for each reason for which figures of a part are missing."""
    found: dict[str, list[str]] = {}
    for entry in rebuilt.part_entries(part.name).values():
        if entry.reason:
            found.setdefault(entry.reason, []).append(entry.row.name)
    return [f"Missing ({', '.join(dict.fromkeys(rows))}): {reason}." for reason, rows in found.items()]


def _with_published(entry: Entry, joint: str) -> str:
    return joint.join(filter(None, (figure_text(entry), published_text(entry))))


def _remarks(rebuilt: Rebuilt) -> list[str]:
    """The source, the scale and the notes of a table."""
    table = rebuilt.table
    return [f"{table.source}. {SCALE_NOTES[rebuilt.scale]}", *(["", table.note] if table.note else [])]


def _part_remarks(rebuilt: Rebuilt, part: TablePart) -> list[str]:
    """The protocol of a part in words, the protocols that were chosen, and why figures are missing."""
    plan = part.scales[rebuilt.scale]
    lines = [
        f"Data {plan.data}; {_listed(plan.options) or 'default settings'}; {plan.seeds} seed{'s' * (plan.seeds > 1)}."
    ]
    if plan.choice is not None and plan.choice.options:
        lines.append(f"Protocols were chosen with {_listed(plan.choice.options)}.")
    for row, agreements in rebuilt.chosen.get(part.name, {}).items():
        figures = ", ".join(f"{name} {value:.2f} %" for name, value in agreements.items())
        lines.append(f"Protocol of {row}, by agreement with held-out noisy labels: {figures}.")
    lines += [f"{row.name}: {row.note}." for row in plan.rows if row.note and row.method]
    return [line for text in (*lines, plan.note, *missing_reasons(rebuilt, part)) if text for line in (text, "")]


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items())


def _plain_entry(entry: Entry) -> dict[str, Any]:
    known = entry.published
    protocols = sorted({str(cell.options.get("protocol", "")) for cell in entry.cells})
    return {
        "part": entry.part,
        "row": entry.row.name,
        "column": entry.column.name,
        "figure": entry.column.figure,
        "method": entry.row.method_at(entry.column) if entry.row.method else "",
        "noise": entry.column.noise,
        "protocol": " ".join(filter(None, protocols)),
        "n": len(entry.values),
        "mean": entry.mean,
        "std": entry.std,
        "published_mean": None if known is None else known.mean,
        "published_std": None if known is None else known.std,
        "difference": entry.difference,
        "reason": entry.reason,
    }


def _latex_cell(entry: Entry) -> str:
    text = "--" if entry.mean is None else figure_text(entry, r"$\pm$")
    return text if entry.difference is None else f"{text} ({entry.difference:+.2f})"


def _escape_latex(text: str) -> str:
    return "".join("\\" + letter if letter in "_%&#$" else letter for letter in text)


TEXTS: dict[str, tuple[str, Callable[[Rebuilt], str]]] = {
    "markdown": ("table.md", rebuilt_markdown),
    "latex": ("table.tex", rebuilt_latex),
    "csv": ("table.csv", rebuilt_csv),
}
