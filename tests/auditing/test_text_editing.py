"""Decisions applied to text files: what was decided changes, and not one byte beside it."""

import gzip
import json
import random
from pathlib import Path

import pandas as pd
import pytest

from antidote_learn import apply_decisions, undo_decisions
from antidote_learn.auditing.contents import content_hash
from antidote_learn.auditing.written_rows import written_cells, written_rows
from antidote_learn.data.tabular import read_frame
from tests.commands import antidote

BOMS = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def table(*decisions: tuple[int, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(decisions, columns=["index", "given_label", "decision", "new_label"])


def corrected(path: Path, *decisions: tuple[int, str, str, str], **options: object) -> bytes:
    done = apply_decisions(table(*decisions), path, out=path.with_name(f"new-{path.name}"), **options)
    return done.out.read_bytes()


def test_one_change_in_a_quoted_file_of_windows_is_one_line(tmp_path):
    lines = ['"id";"größe";"label"', *(f'"{k:03}";"{k},5";"{"Katze" if k % 2 else "Hund"}"' for k in range(2000))]
    path = tmp_path / "a.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    new = corrected(path, (7, "Katze", "relabel", "Hund"))
    lines[8] = '"007";"7,5";"Hund"'
    assert new == "\r\n".join(lines).encode("cp1252")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16-le", "utf-16-be"])
def test_every_form_stays(tmp_path, encoding, separator, end):
    rows = [
        ["größe", "w", "label"], ["1", '"a, b; ""c"""', "é"], ["2", ' "d|e\tf"', '"b"'], ["", "", ' "é" '],
        ["4", "x", "b"], ["5", f'"two{end}lines"', "b"],
    ]  # fmt: skip
    text = end.join(separator.join(row) for row in rows) + end + end  # with an empty line at the end
    marks = BOMS.get(encoding, b"")
    path = tmp_path / "a.txt"
    path.write_bytes(marks + text.encode(encoding))
    new = corrected(path, (0, "é", "relabel", "b"), (1, "b", "relabel", "é"), (3, "b", "drop", ""))
    rows[1][2], rows[2][2] = "b", '"é"'
    kept = end.join(separator.join(row) for row in [*rows[:4], *rows[5:]]) + end + end
    assert new == marks + kept.encode(encoding)


@pytest.mark.parametrize(
    ("before", "decision", "after"),
    {
        "no line end at the end": ("x,label\n1,a\n2,b", (1, "b", "relabel", "a"), "x,label\n1,a\n2,a"),
        "the last row dropped": ("x,label\r\n1,a\r\n2,b", (1, "b", "drop", ""), "x,label\r\n1,a"),
        "a line end at the end": ("x,label\n1,a\n2,b\n", (1, "b", "drop", ""), "x,label\n1,a\n"),
        "empty lines": ("x,label\n\n1,a\n  \n2,b\n\n3,a", (1, "b", "relabel", "a"), "x,label\n\n1,a\n  \n2,a\n\n3,a"),
        "a cell without quotes takes some": (
            'x,label\n1,a\n2,"b, c"\n',
            (0, "a", "relabel", "b, c"),
            'x,label\n1,"b, c"\n2,"b, c"\n',
        ),
        "quotes in quotes": (
            'x,label\n1,a\n2,"say ""b"""\n',
            (0, "a", "relabel", 'say "b"'),
            'x,label\n1,say "b"\n2,"say ""b"""\n',
        ),
        "a quote at the beginning": (
            'x,label\n1,a\n2,"""b"""\n',
            (0, "a", "relabel", '"b"'),
            'x,label\n1,"""b"""\n2,"""b"""\n',
        ),
        "words after a quote": ('x,label\n"1" in,a\n2,b\n', (0, "a", "relabel", "b"), 'x,label\n"1" in,b\n2,b\n'),
        "a quote inside": ('x,label\n5" a,a\n6",b\n', (0, "a", "relabel", "b"), 'x,label\n5" a,b\n6",b\n'),
        "short rows": ("x,label,z\n1,a\n2,b,3\n", (0, "a", "relabel", "b"), "x,label,z\n1,b\n2,b,3\n"),
        "rows without a label": ("x,label\n1,\n2,b\n3,a\n", (2, "a", "relabel", "b"), "x,label\n1,\n2,b\n3,b\n"),
        "a line of tabs": ("x\tlabel\n1\ta\n\t\n2\tb\n", (2, "b", "relabel", "a"), "x\tlabel\n1\ta\n\t\n2\ta\n"),
    }.values(),
)
def test_the_rest_of_a_file_stays(tmp_path, before, decision, after):
    path = tmp_path / "a.csv"
    path.write_text(before, newline="")
    assert corrected(path, decision) == after.encode()


def test_random_files_change_where_they_are_decided_on(tmp_path):
    """Cells of all the marks there are, parted by pandas and by what writes them anew."""
    draw = random.Random(3)
    for _ in range(60):
        end, separator, rows = draw.choice(("\n", "\r\n")), draw.choice(",;\t|"), []
        for k in range(draw.randrange(2, 30)):
            words = "".join(draw.choices('ab.;|\t, "\n\r', k=draw.randrange(8)))
            quoted = '"' + words.replace('"', '""') + '"'
            plain = words if not set(words) & set(f'"\n\r{separator}') else quoted
            rows.append([str(k), draw.choice((plain, quoted)), draw.choice(("u", '"u"', "v", ' "v"'))])
        text = end.join(separator.join(row) for row in [["n", "w", "label"], ["0", "w", "u"], ["1", "w", "v"], *rows])
        path = tmp_path / "a.csv"
        path.write_text(text + draw.choice(("", end)), newline="")
        parted = [[cell.value for cell in written_cells(text, row, separator)] for row in written_rows(text, separator)]
        frame = read_frame(path, strings=("n", "w", "label"))
        assert [row[2] for row in parted[1:]] == frame["label"].tolist()
        at = draw.randrange(len(rows))
        old = rows[at][2].strip(' "')
        new = corrected(path, (at + 2, old, "relabel", "uv".replace(old, "")))
        rows[at][2] = rows[at][2].replace(old, "uv".replace(old, ""))
        wanted = end.join(separator.join(row) for row in [["n", "w", "label"], ["0", "w", "u"], ["1", "w", "v"], *rows])
        assert new.decode().removesuffix(end) == wanted.removesuffix(end)
        for left in tmp_path.glob("new-*"):
            left.unlink()


def test_a_packed_file_is_packed_again(tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"x\tlabel\r\n1\ta\r\n2\tb"))
    assert gzip.decompress(corrected(path, (1, "b", "relabel", "a"))) == b"x\tlabel\r\n1\ta\r\n2\ta"


def test_json_lines_stay_as_they_are(tmp_path):
    lines = [
        '{"label":"é", "x" : 1.50, "w": "a \\"b\\""}', "", ' { "x": 2, "label" : "b\\u00e9" } ', '{"x":3,"label":7}\r',
        '{"x": {}, "label": "é"}'.replace("{}", "null"), '{"x": 5, "label": 7.0, "more": true}',
    ]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8-sig"))
    new = corrected(path, (0, "é", "relabel", "bé"), (2, "7", "relabel", "é"), (3, "é", "drop", ""))
    lines[0], lines[3] = lines[0].replace('"é"', '"b\\u00e9"'), '{"x":3,"label":"é"}\r'
    assert new == "\n".join(lines[:4] + lines[5:]).encode("utf-8-sig")


def test_what_is_given_overrules_here_too(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe^label\n1^ναι\n2^όχι\n".encode("cp1253", "replace"))
    done = antidote("apply", decisions_of(tmp_path, path, "0,ναι,relabel,όχι"), path, "--encoding", "cp1253",
                    "--separator", "^", "--in-place")  # fmt: skip
    assert done.code == 0, done.err
    assert path.read_bytes() == "größe^label\n1^όχι\n2^όχι\n".encode("cp1253", "replace")
    undo_decisions(path.with_name("a.csv.changes.jsonl"))
    assert path.read_bytes() == "größe^label\n1^ναι\n2^όχι\n".encode("cp1253", "replace")
    refused = antidote("apply", tmp_path / "d.csv", tmp_path, "--encoding", "cp1253")
    assert "takes no --encoding" in refused.complaint


def decisions_of(folder: Path, data: Path, *lines: str) -> Path:
    path = folder / "d.csv"
    rows = [f"{line},{content_hash(data)}" for line in lines]
    path.write_text("\n".join(["index,given_label,decision,new_label,data_hash", *rows]) + "\n")
    return path


def test_decisions_that_a_spreadsheet_saved(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,label\n1,é\n2,b\n")
    decisions = tmp_path / "d.csv"
    decisions.write_bytes("index;given_label;decision;new_label\r\n0;é;relabel;b\r\n".encode("cp1252"))
    assert apply_decisions(decisions, path).out.read_text() == "x,label\n1,b\n2,b\n"


def test_the_log_keeps_the_cells_of_a_dropped_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x;label\n"1;5";a\n2;b\n')
    decisions = decisions_of(tmp_path, path, "0,a,drop,")
    apply_decisions(decisions, path, in_place=True)
    last = json.loads((tmp_path / "a.csv.changes.jsonl").read_text().splitlines()[-1])
    assert last["row"] == ["1;5", "a"]
