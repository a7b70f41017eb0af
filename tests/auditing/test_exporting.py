"""`Audit.export`: files that other programs read back, and that no spreadsheet executes."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from antidote_learn import audit
from antidote_learn.auditing.audit_result import write_audit
from tests.auditing.pages import made

NASTY = ("=1+1", "+cmd|' /C calc'!A0", "-1", "@sum", "\tx", "'quoted", 'a "b", c\nd', "/é")
AUDIT = made(300, NASTY, wrong=0.2)
READERS = {
    ".parquet": lambda path: pq.read_table(path).to_pandas(),
    ".jsonl": lambda path: pd.DataFrame([json.loads(line) for line in path.read_text().split("\n") if line]),
    ".csv": lambda path: pd.read_csv(path, dtype={"given_label": str, "predicted_label": str}),
}


@pytest.mark.parametrize("suffix", READERS)
def test_every_row_comes_back_in_the_order_of_the_data(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    AUDIT.export(str(path))
    found, expected = READERS[suffix](path), AUDIT.table.set_index("index")
    assert found["index"].tolist() == list(range(300))
    for name in ("given_label", "predicted_label", "reason"):
        cells = found[name].str.replace(r"^'", "", regex=True) if suffix == ".csv" else found[name]
        assert (cells == expected[name].loc[found["index"]].to_numpy()).all(), name
    assert (found["is_label_issue"].to_numpy() == expected["is_label_issue"].sort_index()).all()
    np.testing.assert_allclose(found["label_quality"], expected["label_quality"].sort_index(), rtol=1e-12)
    assert found["label_score"].equals(found["label_quality"])
    assert list(tmp_path.iterdir()) == [path]


def test_a_spreadsheet_executes_nothing(tmp_path):
    AUDIT.export(tmp_path / "rows.csv")
    write_audit(tmp_path, AUDIT)
    for name in ("rows.csv", "issues.csv"):
        cells = READERS[".csv"](tmp_path / name)
        for column in ("given_label", "predicted_label", "reason"):
            begun = cells[column].str[0]
            assert not begun.isin(["=", "+", "@", "\t", "\r"]).any(), (name, column)
        assert {"-1", "'=1+1", "''quoted", "/é"} <= set(cells["given_label"])  # a number is only a number


def test_cleanlab_reads_it(tmp_path):
    """`CleanLearning.fit(X, y, label_issues=...)` wants these columns and the order of the data."""
    learning = pytest.importorskip("cleanlab.classification")
    from sklearn.linear_model import LogisticRegression

    made(300, (0, 1, 2), wrong=0.2).export(tmp_path / "rows.parquet")
    rows = pd.read_parquet(tmp_path / "rows.parquet")
    y = rows["given_label"].to_numpy()
    X = np.random.default_rng(0).normal(size=(300, 3))
    fitted = learning.CleanLearning(LogisticRegression()).fit(X, y, label_issues=rows)
    assert fitted.get_label_issues()["is_label_issue"].equals(rows["is_label_issue"])
    assert {"is_label_issue", "label_score", "given_label", "predicted_label"} <= set(rows)  # of a Datalab


def table_of_its_own(count: int) -> pd.DataFrame:
    """A table with cells of all kinds, and with names that the audit's table has, too."""
    return pd.DataFrame(
        {
            "id": np.arange(count) + 7,
            "reason": [f"+{i}" if i % 2 else "=1+1" for i in range(count)],
            "data_reason": "mine",
            "label_score": 0.5,
            "=cmd()": 1,
            "when": pd.date_range("2026-01-01", periods=count),
            "any": [1, "one", None, 2**70, ["a"]] * (count // 5),
        }
    )


@pytest.mark.parametrize("suffix", READERS)
def test_the_columns_of_the_data_stand_beside_the_audits_own(suffix, tmp_path):
    source = table_of_its_own(300)
    found = made(300, NASTY, wrong=0.2, inputs=source)
    found.export(tmp_path / f"rows{suffix}", with_columns=True)
    rows = READERS[suffix](tmp_path / f"rows{suffix}")
    ours, theirs = [*AUDIT.table.columns, "label_score"], ["id", "data_data_reason", "data_reason", "data_label_score"]
    header = "'=cmd()" if suffix == ".csv" else "=cmd()"
    assert rows.columns.tolist() == [*ours, *theirs, header, "when", "any"]
    assert rows["index"].tolist() == list(range(300))
    assert rows["id"].tolist() == source["id"].tolist()
    defused = "'=1+1" if suffix == ".csv" else "=1+1"
    assert rows["data_data_reason"][:2].tolist() == [defused, "+1"]
    assert pd.to_datetime(rows["when"]).dt.day[:3].tolist() == [1, 2, 3]
    assert rows["any"].isna().tolist() == source["any"].isna().tolist()
    assert str(rows["any"][3]) == str(2**70)
    found.export(tmp_path / f"rows{suffix}")
    assert READERS[suffix](tmp_path / f"rows{suffix}").columns.tolist() == ours


def test_a_subset_in_another_order_has_its_own_columns(tmp_path):
    number = np.arange(150)
    frame = pd.DataFrame({"id": number, "x": number % 2 * 5.0 + number / 64, "label": np.tile(["a", "b"], 75)})
    frame.to_csv(tmp_path / "data.csv", index=False)
    found = audit(tmp_path / "data.csv", subset=100, epochs=1, with_columns=True, out=tmp_path / "audit")
    found.export(tmp_path / "rows.parquet", with_columns=True)
    for rows in (pd.read_parquet(tmp_path / "rows.parquet"), pd.read_csv(tmp_path / "audit" / "issues.csv")):
        assert len(rows) == 100
        assert (rows["id"] == rows["index"]).all()  # though no network reads what counts the rows
        assert (rows["x"] == rows["index"] % 2 * 5.0 + rows["index"] / 64).all()


def test_data_without_columns_have_none_to_carry(tmp_path):
    with pytest.raises(ValueError, match="`with_columns` carries the columns of a table, and these data have none"):
        AUDIT.export(tmp_path / "rows.csv", with_columns=True)
    X, y = np.zeros((60, 3), dtype=np.float32), np.arange(60) % 2
    with pytest.raises(ValueError, match="these data have none"):
        audit(X, y, with_columns=True, out=tmp_path / "audit")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"'rows.xlsx' .* accepted: .csv, .parquet, .jsonl"):
        AUDIT.export(tmp_path / "rows.xlsx")
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere: make it"):
        AUDIT.export(tmp_path / "nowhere" / "rows.csv")


def test_columns_of_numbers_and_of_files(tmp_path):
    table = AUDIT.table.assign(file="=evil.png", clean_label=np.arange(300) % 3)
    replace(AUDIT, table=table).export(tmp_path / "rows.csv")
    found = pd.read_csv(tmp_path / "rows.csv")
    assert (found["file"] == "'=evil.png").all()
    assert found["clean_label"].dtype == np.int64
