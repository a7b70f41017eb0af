"""JSON lines and workbooks of Excel as tables: what comes out, and what is refused before it does harm."""

import datetime
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from antidote_learn.data import safety
from antidote_learn.data.load import data_kind, open_data, open_inputs
from antidote_learn.data.tabular import read_features, read_table
from antidote_learn.data.text_forms import text_form

# --- JSON lines ------------------------------------------------------------------------------------------------------


def lines(path: Path, *rows: object, encoding: str = "utf-8") -> Path:
    text = "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)
    path.write_bytes(text.encode(encoding))
    return path


def test_a_line_is_a_row(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        {"größe": 1.5, "n": 1, "flag": True, "code": "007", "label": "é"},
        "",
        {"n": 2, "label": "b", "größe": None, "flag": False, "more": "x"},
        {"größe": 2, "n": 3, "flag": True, "code": "1", "label": None},
    )
    data = read_table(path)
    assert data.classes == ("b", "é")
    assert data.positions.tolist() == [0, 1]  # empty lines do not count
    assert list(data.inputs) == ["größe", "n", "flag", "code", "more"]
    assert data.inputs["code"].tolist()[0] == "007"
    assert data.inputs["n"].tolist() == [1, 2]
    assert np.isnan(data.inputs["größe"][1])
    inputs, names = open_inputs(path)
    assert (len(inputs), len(names)) == (3, 3)


def test_lines_may_have_another_encoding(tmp_path):
    rows = [{"x": 1, "label": "é"}, {"x": 2, "label": "b"}]
    told = []
    found = read_features(lines(tmp_path / "a.jsonl", *rows, encoding="utf-16"), note=told.append)
    assert found["label"].tolist() == ["é", "b"]
    path = lines(tmp_path / "b.jsonl", *rows, encoding="cp437")
    assert read_features(path, form=text_form("cp437"))["label"].tolist() == ["é", "b"]
    assert data_kind(path, form=text_form("cp437")) == "table"
    with pytest.raises(ValueError, match="takes no `decimal`"):
        data_kind(path, form=text_form(decimal=","))


@pytest.mark.parametrize(
    ("line", "words"),
    {
        "a list inside": ({"x": [1, 2], "label": "a"}, "line 2 has a list or an object in 'x': make columns of plain"),
        "an object inside": ({"x": {"a": 1}, "label": "a"}, "line 2 has a list or an object in 'x'"),
        "an array": ([1, 2], "line 2 is no object: each line must look like"),
        "a number": ("3", "line 2 is no object"),
        "not closed": ('{"x": 1', "line 2 is no JSON .*at character 8.*; each line must be one object"),
        "several lines": ("{", "line 2 is no JSON"),
        "twice": ('{"x": 1, "x": 2}', "line 2 has 'x' twice"),
        "deep": ('{"x": ' + "[" * 100_000, "line 2 is no JSON"),
        "a huge number": ('{"x": ' + "9" * 5000 + "}", "line 2 is no JSON"),
        "half a character": ('{"x": "\\ud800"}', "line 2 has half a character"),
        "half a name": ('{"\\ud800": 1}', "line 2 has half a character"),
    }.values(),
)
def test_a_line_that_is_no_row_is_named(tmp_path, line, words):
    path = lines(tmp_path / "a.jsonl", {"x": 1, "label": "a"}, line)
    with pytest.raises(ValueError, match=rf"^a\.jsonl: {words}") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


def test_lines_with_ever_other_names_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(safety, "_memory", lambda: 10**6)
    path = lines(tmp_path / "a.jsonl", *({f"x{k}": 1, "label": "a"} for k in range(2000)))
    with pytest.raises(ValueError, match=r"^a.jsonl needs more memory than there is"):
        read_table(path)


# --- workbooks -------------------------------------------------------------------------------------------------------


@pytest.fixture
def excel():
    return pytest.importorskip("openpyxl")


def test_the_first_sheet_is_the_table(excel, tmp_path):
    book = excel.Workbook()
    sheet = book.active
    sheet.title = "Rows"
    day = datetime.datetime(2026, 1, 31)
    for row in (
        ["größe", "n", "when", "code", " label ", None],
        [1.5, 1, day, "007", "é"],
        [],
        [None, 2, day, "NA", "b", None, ""],
        ["#N/A", 3, day, "1", "é"],
    ):
        sheet.append(row)
    book.create_sheet("other").append(["nothing"])
    book.save(tmp_path / "a.xlsx")
    data = read_table(tmp_path / "a.xlsx")
    assert data.notes == ("a.xlsx: the first of 2 sheets was read, 'Rows'",)
    assert [data.classes[k] for k in data.labels] == ["é", "b", "é"]
    assert data.inputs["größe"].tolist()[0] == 1.5
    assert data.inputs["größe"].isna().tolist() == [False, True, True]
    assert data.inputs["n"].tolist() == [1, 2, 3]
    assert data.inputs["when"].dt.day.tolist() == [31, 31, 31]
    assert data.inputs["code"].tolist()[::2] == ["007", "1"]
    assert data_kind(tmp_path / "a.xlsx") == "table"
    assert len(open_inputs(tmp_path / "a.xlsx")[1]) == 3


def test_formulas_are_not_worked_out(excel, tmp_path):
    """The result that the file keeps counts; a workbook that was never calculated keeps none."""
    book = excel.Workbook()
    for row in (["x", "z", "label"], [1, "=1/0", "a"], [2, '=WEBSERVICE("http://127.0.0.1:9")', "b"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert read_table(tmp_path / "a.xlsx").inputs["z"].isna().all()


def packed(path: Path, rows: str, *, further: dict[str, str] | None = None) -> Path:
    """A workbook written by hand, whose first sheet holds the given XML."""
    office = "http://schemas.openxmlformats.org"
    kinds = f"{office}/officeDocument/2006/relationships"
    relations = f'<Relationships xmlns="{office}/package/2006/relationships">{{}}</Relationships>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{office}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": relations.format(
            f'<Relationship Id="rId1" Type="{kinds}/officeDocument" Target="xl/workbook.xml"/>'
        ),
        "xl/workbook.xml": f'<workbook xmlns="{office}/spreadsheetml/2006/main" xmlns:r="{kinds}"><sheets>'
        '<sheet name="s" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations.format(
            f'<Relationship Id="rId1" Type="{kinds}/worksheet" Target="worksheets/sheet1.xml"/>'
        ),
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?>{{}}<worksheet xmlns="{office}/spreadsheetml/2006/main">'
        f"{rows}</worksheet>",
    }
    parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"].format((further or {}).get("doctype", ""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return path


def cell(at: str, text: str) -> str:
    return f'<c r="{at}" t="inlineStr"><is><t>{text}</t></is></c>'


HEAD = f'<row r="1">{cell("A1", "x")}{cell("B1", "label")}</row>'
BODY = "".join(f'<row r="{k}"><c r="A{k}"><v>{k}</v></c>{cell(f"B{k}", "ab"[k % 2])}</row>' for k in range(2, 30))


@pytest.mark.parametrize(
    ("rows", "words"),
    {
        "a row far below": (f'{HEAD}{BODY}<row r="99999999">{cell("A99999999", "z")}</row>', "more than 1048576 rows"),
        "no cells": ("", "the first sheet is empty: its first row must name the columns"),
        "a long row": (f"{HEAD}<row r='2'>{cell('E2', 'z')}</row>", "row 2 has 5 cells, and the first row names 2"),
        "a name twice": (f'<row r="1">{cell("A1", "x")}{cell("B1", "x")}</row>{BODY}', "the column 'x' twice"),
    }.values(),
)
def test_a_sheet_that_is_no_table_is_refused(excel, tmp_path, rows, words):
    path = packed(tmp_path / "a.xlsx", f"<sheetData>{rows}</sheetData>")
    with pytest.raises(ValueError, match=rf"^a\.xlsx: .*{words}"):
        read_table(path)


def test_the_size_that_a_sheet_states_is_not_believed(excel, tmp_path):
    rows = f'<dimension ref="A1:XFD1048576"/><sheetData>{HEAD}{BODY}</sheetData>'
    data = read_table(packed(tmp_path / "a.xlsx", rows))
    assert len(data.labels) == 28


def test_entities_are_not_blown_up(excel, tmp_path):
    """Ten levels of ten times the one before would be 10 GB."""
    levels = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 10))
    doctype = f'<!DOCTYPE x [<!ENTITY e0 "{"z" * 10}">{levels}]>'
    rows = f"<sheetData>{HEAD}<row r='2'>{cell('A2', '&e9;')}</row></sheetData>"
    path = packed(tmp_path / "a.xlsx", rows, further={"doctype": doctype})
    with pytest.raises(ValueError, match=r"^a\.xlsx cannot be read"):
        read_table(path)


def test_a_workbook_larger_than_the_memory_is_refused_before(excel, tmp_path, monkeypatch):
    monkeypatch.setattr(safety, "_memory", lambda: 10**6)
    path = packed(tmp_path / "a.xlsx", f"<sheetData>{HEAD}{BODY}</sheetData>" + " " * 10**6)
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match=r"^a.xlsx needs more memory than there is"):
        read_table(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x,label\n1,a\n"])
def test_a_file_that_is_no_workbook(excel, tmp_path, content):
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(ValueError, match=r"^a\.xlsx cannot be read") as caught:
        read_table(tmp_path / "a.xlsx")
    assert "\n" not in str(caught.value)


def test_without_the_package_it_is_named(tmp_path, monkeypatch):
    pd.DataFrame({"x": [1]}).to_csv(tmp_path / "a.xlsx")
    monkeypatch.setattr(safety.importlib.util, "find_spec", lambda name: None)
    for read in (open_data, open_inputs):
        with pytest.raises(ValueError, match=r"needs openpyxl: pip install 'antidote-learn\[excel\]', or save"):
            read(tmp_path / "a.xlsx")


def test_openpyxl_is_imported_for_workbooks_alone():
    program = "import sys, antidote_learn.data.tabular; print('openpyxl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
