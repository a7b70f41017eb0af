"""The files of a rebuilt table, and a page with all tables of a reproduction, which needs no other file."""

from __future__ import annotations

import base64
import subprocess
import time
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from antidote_learn._version import __version__
from antidote_learn.bench.plots import save
from antidote_learn.bench.rebuilt_figure import draw_rebuilt
from antidote_learn.bench.rebuilt_texts import TEXTS, rebuilt_json
from antidote_learn.bench.reproduction import Rebuilt
from antidote_learn.presets.paper_tables import ORDER
from antidote_learn.training.checkpoint import damage_told, read_json, write_bytes

TABLE, PICTURE, PAGE = "table.json", "figure.png", "report.html"  # the files of a table, and of the page
# The entries, with their types, of a table's file.
NEEDED: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "title": str,
    "scale": str,
    "seconds": (int, float),
    "entries": list,
    "remarks": list,
}
STYLE = "report.css"  # the file of the page's style, in this folder


def write_rebuilt(root: Path, rebuilt: Rebuilt) -> list[Path]:
    """Writes a rebuilt table as Markdown, LaTeX, CSV and JSON, and its figure, in a folder of a reproduction's."""
    folder = root / rebuilt.table.name
    folder.mkdir(parents=True, exist_ok=True)
    texts = {file: text(rebuilt) for file, text in TEXTS.values()}
    made = {"version": __version__, "commit": package_commit(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    texts[TABLE] = rebuilt_json(rebuilt, **made)
    for name, text in texts.items():
        write_bytes(folder / name, text.encode())
    figure = draw_rebuilt(rebuilt, root)
    drawn = [] if figure is None else [save(figure, folder / PICTURE)]
    return [*(folder / name for name in texts), *drawn]


def package_commit() -> str:
    """The commit of the source that runs, with a plus sign if it was changed; "" where it is no checkout."""
    here = Path(__file__).parent

    def ask(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=False, timeout=10)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = ask("rev-parse", "HEAD")[:7] if ask("ls-files", Path(__file__).name) else ""
        return commit + "+" if commit and ask("diff-index", "HEAD", str(here)) else commit
    except (OSError, subprocess.SubprocessError):
        return ""


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Writes the page of a reproduction's folder, and returns its path.

    Raises:
        FileNotFoundError: The folder holds no table that was rebuilt.
        ValueError: A file of it is damaged.
    """
    found = sorted(folder.glob(f"*/{TABLE}"), key=_place)
    if not found:
        raise FileNotFoundError(f"{folder} holds no table that was rebuilt: make one with `antidote reproduce`")
    sections = []
    for path in found:
        table = read_json(path, NEEDED)
        with damage_told(path):
            sections.append(_section(table, path.parent / PICTURE))
    style = files("antidote_learn.bench").joinpath(STYLE).read_text(encoding="utf-8")
    names = [path.parent.name for path in found]
    links = " ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>ANTIDOTE, rebuilt</title><style>{style}</style><h1>The paper's tables, rebuilt</h1>"
        f"<nav>{links}</nav>{''.join(sections)}</html>\n"
    )
    target = out or folder / PAGE
    write_bytes(target, page.encode())
    return target


def _place(path: Path) -> tuple[int, str]:
    name = path.parent.name
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _section(table: dict[str, Any], picture: Path) -> str:
    """A table with its remarks and its figure."""
    made = ", ".join(str(table[key]) for key in ("version", "commit", "date") if table.get(key))
    hours = f"{table['seconds'] / 3600:.2f} hours of training; {made}"
    parts = dict.fromkeys(entry["part"] for entry in table["entries"])
    body = "".join(_part_table(table, part) for part in parts)
    image = ""
    if picture.is_file():
        code = base64.b64encode(picture.read_bytes()).decode()
        image = f'<p><img alt="Our figures and the published ones" src="data:image/png;base64,{code}">'
    remarks = "".join(f"<p>{escape(str(line))}" for line in table["remarks"])
    return (
        f'<h2 id="{escape(table["name"])}">{escape(table["title"])}</h2>{remarks}'
        f'<p class="quiet">Scale {escape(table["scale"])}; {escape(hours)}.{body}{image}'
    )


def _part_table(table: dict[str, Any], part: str) -> str:
    entries = [entry for entry in table["entries"] if entry["part"] == part]
    columns = list(dict.fromkeys(entry["column"] for entry in entries))
    rows = list(dict.fromkeys(entry["row"] for entry in entries))
    found = {(entry["row"], entry["column"]): entry for entry in entries}
    head = "".join(f"<th>{escape(name)}" for name in ("", *columns))
    body = "".join(
        f"<tr><th>{escape(row)}" + "".join(_table_cell(found.get((row, column))) for column in columns) for row in rows
    )
    remarks = "".join(f'<p class="quiet">{escape(str(line))}' for line in table.get("part_remarks", {}).get(part, []))
    return f'<h3>{escape(part)}</h3><div class="scroll"><table><tr>{head}{body}</table></div>{remarks}'


def _table_cell(entry: dict[str, Any] | None) -> str:
    """Our figure, and below it the published one with the difference; blue above, orange below."""
    if entry is None:
        return "<td>"
    mean, std, known, difference = (entry[key] for key in ("mean", "std", "published_mean", "difference"))
    ours = "missing" if mean is None else f"{mean:.2f}" + ("" if std is None else f" ± {std:.2f}")
    title = f' title="{escape(str(entry["reason"]))}"' if entry["reason"] else ""
    if known is None:
        return f"<td{title}>{ours}"
    side = "" if difference is None else "above" if difference >= 0.0 else "below"
    change = "" if difference is None else f' <span class="{side}">{difference:+.2f}</span>'
    return f"<td{title}>{ours}<small>paper {known:.2f}{change}</small>"
