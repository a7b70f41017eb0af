"""Text tables as people have them: any usual encoding, separator and decimal mark is read without being asked."""

import csv
import gzip
import io
import random
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from antidote_learn.data.load import data_kind, open_data, open_inputs
from antidote_learn.data.number_marks import decimal_mark
from antidote_learn.data.tabular import read_features, read_table
from antidote_learn.data.text_forms import detect_separator, text_form
from tests.commands import antidote

ROWS = 40
PEOPLE = pd.DataFrame(
    {
        "größe": [1.5 + k / 8 for k in range(ROWS)],
        "ort": [("Köln", "Orléans", "Genève; Suisse", "Łódź, PL")[k % 4] for k in range(ROWS)],
        "label": [("déjà", "non")[k * k % 3 % 2] for k in range(ROWS)],
    }
)
WESTERN = PEOPLE.replace("Łódź, PL", "Malmö | SE")
BOMS = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def written(frame: pd.DataFrame, encoding: str, separator: str, decimal: str, *, bom: bool) -> bytes:
    text = frame.to_csv(index=False, sep=separator, decimal=decimal)
    return (BOMS[encoding] if bom else b"") + text.encode(encoding)


# --- what is detected ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz"])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", "."), (";", ","), ("\t", ","), ("|", ".")])
@pytest.mark.parametrize(
    ("encoding", "bom"),
    [
        ("utf-8", False),
        ("utf-8", True),
        ("utf-16-le", True),
        ("utf-16-be", True),
        ("cp1252", False),
        ("latin-1", False),
    ],
)
def test_every_form_is_the_same_table(tmp_path, encoding, bom, separator, decimal, suffix):
    frame = WESTERN if encoding in ("cp1252", "latin-1") else PEOPLE
    if encoding == "cp1252":
        frame = frame.replace("Köln", "Köln – „Süd“")  # characters that latin-1 lacks
    content = written(frame, encoding, separator, decimal, bom=bom)
    path = write(tmp_path / f"a{suffix}", gzip.compress(content) if suffix.endswith("gz") else content)
    data = read_table(path)
    pd.testing.assert_frame_equal(data.inputs, frame.drop(columns="label"))
    assert data.classes == ("déjà", "non")
    usual = separator == ("\t" if suffix == ".tsv" else ",")
    plain = encoding == "utf-8" and usual and decimal == "."
    assert len(data.notes) == (0 if plain else 1)  # one sentence says it all
    for part, said in (
        (encoding != "utf-8", f"as {encoding}"),
        (not usual, {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}[separator]),
        (decimal == ",", "with decimal commas"),
        (not plain, "`encoding`, `separator` and `decimal` overrule this"),
    ):
        assert (said in "".join(data.notes)) is part


def test_inputs_to_predict_are_detected_alike(tmp_path):
    told = []
    path = write(tmp_path / "new.csv", written(WESTERN, "latin-1", ";", ",", bom=False))
    found = read_features(path, strings=("ort",), note=told.append)
    pd.testing.assert_frame_equal(found, WESTERN)
    assert len(told) == 1
    inputs, _ = open_inputs(path, note=told.append)
    pd.testing.assert_frame_equal(inputs, WESTERN)
    assert told[0] == told[1]


def test_bytes_far_below_decide_on_the_encoding(tmp_path):
    lines = ["x,label", *(f"{k},{'ab'[k % 2]}" for k in range(300_000)), "1,é"]
    data = read_table(write(tmp_path / "a.csv", "\n".join(lines).encode("latin-1")))
    assert data.classes == ("a", "b", "é")
    assert "as latin-1" in data.notes[0]


# --- an ordinary file stays what it is -------------------------------------------------------------------------------


ORDINARY = {
    "semicolons in quotes": 'x,words,label\n1,"a; b; c",u\n2,"d; e; f",v\n',
    "semicolons in every cell": "x,words,label\n1,a;b;c,u\n2,d;e;f,v\n",
    "bars": "x,words,label\n1,a|b,u\n2,c|d,v\n",
    "tabs": "x,words,label\n1,a\tb,u\n2,c\td,v\n",
    "commas in quotes": 'x,words,label\n1,"a, b, c, d",u\n2,"e, f",v\n',
    "line ends in quotes": 'x,words,label\n1,"a;\nb;c\n",u\n2,"d;e",v\n',
    "a quote inside": 'x,words,label\n1,5" a;b,u\n2,6" c;d,v\n',
    "a header with marks": '"a; b","c | d",label\n1,2,u\n2,3,v\n',
    "short rows": "x,words,label\n1,a;b,u\n2\n3,c;d,v\n4,e;f,w\n",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_comma_file_is_read_as_ever(tmp_path, text):
    told = []
    found = read_features(write(tmp_path / "a.csv", text), note=told.append)
    wanted = pd.read_csv(io.StringIO(text), skipinitialspace=True, index_col=False)
    pd.testing.assert_frame_equal(found, wanted)
    assert told == []


@pytest.mark.parametrize("text", ["words\na;b\nc;d\n", "words\nhello\nyou\n", "a;b\n", "words\n1.5\n2\n"])
def test_a_file_of_one_column_stays_one(tmp_path, text):
    expected = 2 if text == "a;b\n" else 1
    try:
        found = read_features(write(tmp_path / "a.csv", text))
    except ValueError as error:
        assert "0 rows" in str(error)  # noqa: PT017 - a header alone
        return
    assert found.shape[1] == expected


def test_random_comma_files_are_never_taken_for_others():
    """Files as Python's csv writes them, with cells of all the marks there are."""
    draw = random.Random(5)
    for _ in range(400):
        width = draw.randrange(2, 6)
        buffer = io.StringIO()
        writer = csv.writer(buffer)
        writer.writerow([f"c{k}" for k in range(width)])
        for _ in range(draw.randrange(1, 30)):
            writer.writerow(
                ["".join(draw.choices('ab1.;|\t,"\n ', k=draw.randrange(1, 12))).strip() for _ in range(width)]
            )
        assert detect_separator(buffer.getvalue(), ",") == ","


@pytest.mark.parametrize("separator", ";\t|")
def test_random_files_with_another_separator(separator):
    draw = random.Random(7)
    for _ in range(200):
        width = draw.randrange(2, 6)
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=separator)
        writer.writerow([f"c{k}" for k in range(width)])
        for _ in range(draw.randrange(2, 30)):
            writer.writerow([f"{draw.random():.3f}".replace(".", ",") for _ in range(width)])
        assert detect_separator(buffer.getvalue(), ",") == separator


def test_a_unit_after_a_comma_parts_no_column(tmp_path):
    """As many commas in the header as decimal commas in a row."""
    text = "Gewicht, kg;Größe, m;label\n70,5;1,80;a\n65,25;1,71;b\n"
    found = read_features(write(tmp_path / "a.csv", text))
    assert found["Größe, m"].tolist() == [1.8, 1.71]
    assert detect_separator("lat;lon,label\n1.5;2.5,x\n3.5;4.5,y\n", ",") == ","


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25]),
        (["1.234,5", "2", "1.000.000,25"], [1234.5, 2, 1000000.25]),
        (["1 234,5", "12 000", "7"], [1234.5, 12000, 7]),
        (["1'234,5", "12'000,5", "7"], [1234.5, 12000.5, 7]),
        (["1,5e3", "", "2,5"], [1500, np.nan, 2.5]),
        (["1,234.5", "2,000", "7"], [1234.5, 2000, 7]),
        (["1,234,567", "2,000", "7"], [1234567, 2000, 7]),
    ],
)
def test_marks_that_can_mean_one_thing_are_read(tmp_path, cells, numbers):
    text = "n;label\n" + "".join(f"{cell};{'ab'[k % 2]}\n" for k, cell in enumerate(cells))
    found = read_features(write(tmp_path / "a.csv", text))
    np.testing.assert_allclose(found["n"].to_numpy(), numbers)


def test_what_one_column_shows_tells_the_others(tmp_path):
    text = "a;b;c;d\n1,5;1,234;1.234;12.5\n2,5;2,500;12.000;13.75\n"
    data = read_features(write(tmp_path / "a.csv", text))
    assert data["b"].tolist() == [1.234, 2.5]
    assert data["c"].tolist() == [1234, 12000]
    assert data["d"].tolist() == [12.5, 13.75]  # no thousands: a point is what it is
    assert decimal_mark(pd.DataFrame({"b": ["1,234"]}), ";", ()) is None


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5.2026", "2.5.2026"],
        ["1,2,3", "4,5"],
        ["192.168.1.1", "10.0.0.1"],
        ["0,5 kg", "1,5 kg"],
        ["01,234", "02,000x"],
    ],
)
def test_other_strings_stay_as_they_are(tmp_path, cells):
    text = "n;x;label\n" + "".join(f"{cell};1,5;{'ab'[k % 2]}\n" for k, cell in enumerate(cells))
    assert read_features(write(tmp_path / "a.csv", text))["n"].tolist() == cells


def test_lists_in_a_comma_file_are_no_decimals(tmp_path):
    told = []
    path = write(tmp_path / "a.csv", 'n,m,label\n"1,5","1,234",a\n"2,7","5,678",b\n')
    found = read_features(path, note=told.append)
    assert found["n"].tolist() == ["1,5", "2,7"]
    assert told == [
        "a.csv: columns 'n', 'm' may hold numbers with a mark, as in '1,5', and were read as words: say which by "
        "`decimal`"
    ]
    assert read_features(path, form=text_form(decimal=","))["n"].tolist() == [1.5, 2.7]
    assert read_features(path, form=text_form(decimal="."))["m"].tolist() == [1234, 5678]


def test_columns_of_strings_are_read_as_they_are_written(tmp_path):
    path = write(tmp_path / "a.csv", "code;x\n1,50;1,5\n2,00;2,5\n")
    assert read_features(path, strings=("code",))["code"].tolist() == ["1,50", "2,00"]


# --- what is given overrules -----------------------------------------------------------------------------------------


def test_what_is_given_overrules_and_is_not_noted(tmp_path):
    path = write(tmp_path / "a.csv", "x;y,label\n1;2,a\n3;4,b\n".encode("utf-16"))
    assert list(read_table(path).inputs) == ["x;y"]
    data = read_table(write(path, "x^label\n1^a\n3^é\n".encode("cp1252")), form=text_form("cp1252", "^"))
    assert (list(data.inputs), data.notes) == (["x"], ())
    greek = write(tmp_path / "b.csv", "x,label\n1,ναι\n2,όχι\n".encode("cp1253"))
    assert read_table(greek, form=text_form("cp1253")).classes == ("ναι", "όχι")
    big = write(tmp_path / "c.csv", "\ufeffx,label\n1,a\n2,b\n".encode("utf-16-be"))
    assert list(read_table(big, form=text_form("utf-16")).inputs) == ["x"]
    tabs = write(tmp_path / "d.csv", "x;y\tlabel\n1;1\ta\n2;2\tb\n")
    assert list(read_table(tabs, form=text_form(separator="tab")).inputs) == ["x;y"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encoding": "utf-99"}, "unknown `encoding=utf-99`"),
        ({"encoding": "rot13"}, "unknown `encoding=rot13`"),
        ({"separator": ";;"}, "separator must be one character"),
        ({"separator": "a"}, "separator must be one character"),
        ({"separator": "§"}, "separator must be one character"),
        ({"separator": '"'}, "separator must be one character"),
        ({"decimal": ";"}, "decimal must be '.' or ','; received ';'"),
    ],
)
def test_a_form_that_is_none_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        text_form(**options)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (("x,label\n" + "é,a\nü,b\n" * 9).encode() + b"\xe9,a\n", {}, "1 of its bytes are no UTF-8, unlike the rest"),
        ("x,label\nпривет,да\nслово,нет\n".encode("cp1251"), {}, "is neither UTF-8 nor cp1252 nor latin-1: name its"),
        (b"x,label\n\x81\x8d,a\nb,b\n", {}, "is neither UTF-8 nor cp1252 nor latin-1"),
        ("x,label\né,a\nu,b\n".encode("latin-1"), {"encoding": "utf-8"}, "its text is no utf-8: name its `encoding`"),
    ],
)
def test_an_encoding_that_cannot_be_told_is_asked_for(tmp_path, content, options, words):
    with pytest.raises(ValueError, match=rf"^a\.csv: .*{words}"):
        read_table(write(tmp_path / "a.csv", content), form=text_form(**options))


def test_a_form_is_for_text_files(tmp_path):
    PEOPLE.to_parquet(tmp_path / "a.parquet")
    for name in ("a.parquet", "digits"):
        with pytest.raises(ValueError, match="takes no `separator`"):
            data_kind(tmp_path / name if "." in name else name, form=text_form(separator=";"))


def test_a_large_file_costs_little_more_than_its_parsing(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60_000, 12))).assign(words="some words, as they come")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";", decimal=",")
    times = dict.fromkeys(("pandas", "a", "b"), np.inf)  # the least of three, in turns: other work only adds
    for name, read in 3 * (("pandas", pd.read_csv), ("a", read_features), ("b", read_features)):
        start = time.process_time()
        read(tmp_path / f"{'a' if name == 'pandas' else name}.csv")
        times[name] = min(times[name], time.process_time() - start)
    assert times["a"] < 2 * times["pandas"] + 0.3
    assert times["b"] < 5 * times["pandas"] + 0.5


# --- rows without a label --------------------------------------------------------------------------------------------


def test_rows_without_a_label_are_left_out_and_counted(tmp_path):
    path = write(tmp_path / "a.csv", "x,label,clean_label\n1,a,a\n2,,b\n3,b,a\n4,NA,\n")
    test = write(tmp_path / "b.csv", "x,label\n1,a\n5,\n")
    data = read_table(path, test=test)
    assert data.inputs["x"].tolist() == [1, 3]
    assert data.positions.tolist() == [0, 2]
    assert [data.classes[k] for k in data.clean_labels] == ["a", "a"]
    assert len(data.test_labels) == 1
    assert data.notes == (
        "2 of 4 rows have no label in column 'label' and were left out (in a text file NA, None, null and ? are no "
        "classes)",
        "test part: 1 of 2 rows have no label in column 'label' and were left out (in a text file NA, None, null and ? "
        "are no classes)",
    )
    with pytest.raises(ValueError, match=r"'label' lacks 2 of 4 labels, in row 1, 3 \(counted from 0"):
        open_data(path, strict=True)
    pair = open_data((np.eye(3), ["u", None, "v"]))
    assert (pair.positions.tolist(), pair.notes) == ([0, 2], ("1 of 3 rows have no label and were left out",))


# --- the commands ----------------------------------------------------------------------------------------------------


def test_every_command_reads_such_a_file(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.normal(size=200)
    frame = pd.DataFrame({"größe": x, "n": draw.normal(size=200), "art": np.where(x > 0, "größer", "kleiner")})
    (tmp_path / "a.csv").write_bytes(written(frame, "latin-1", ";", ",", bom=False))
    (tmp_path / "b.txt").write_bytes(written(frame, "utf-16-le", "\t", ",", bom=True))
    quick = ("--label", "art", "--epochs", 2)
    for words in (
        ("train", "a.csv", *quick, "--test", "b.txt", "--out", "run"),
        ("audit", "a.csv", *quick, "--out", "audit"),
        ("compare", "a.csv", *quick, "--methods", "ce", "--seeds", 1, "--jobs", 1, "--out", "grid"),
        ("predict", "run", "b.txt", "--out", "p.csv"),
    ):
        done = antidote(*words, cwd=tmp_path)
        assert done.code == 0, done.err
        if words[0] != "compare":
            name = "b.txt" if words[0] == "predict" else "a.csv"
            assert f"note: {name} was read as" in done.err
            assert "--encoding, --separator and --decimal overrule this" in done.err
    assert len(pd.read_csv(tmp_path / "p.csv")) == 200
    wrong = antidote("train", "a.csv", *quick, "--separator", "|", "--out", "other", cwd=tmp_path)
    assert (wrong.code, "there is no column 'art'; the columns are" in wrong.complaint) == (2, True)
    bad = antidote("predict", "run", "a.csv", "--decimal", "x", cwd=tmp_path)
    assert (bad.code, "decimal must be '.' or ','" in bad.complaint) == (2, True)
