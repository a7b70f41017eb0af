"""antidote apply, interrupted: killed, stopped, hindered, or with files in its way that it did not make."""

import contextlib
import itertools
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from antidote_learn import apply_decisions, undo_decisions
from antidote_learn.auditing.journals import working_room
from antidote_learn.training.checkpoint import write_sealed
from tests.auditing.kills import kill_everywhere, kill_randomly, make_images, tree, write_decisions
from tests.auditing.test_in_place import LINES, make_data
from tests.commands import Command, antidote

KILLED = {
    "folder": ("images", ["apply", "decisions.csv", "images", "--in-place"]),
    "folder, undone": ("images", ["apply", "--undo", "images/changes.jsonl"]),
    "copy of a folder": ("images", ["apply", "decisions.csv", "images", "--out", "new"]),
    "file": ("data.csv", ["apply", "decisions.csv", "data.csv", "--in-place"]),
    "file, undone": ("data.csv", ["apply", "--undo", "data.csv.changes.jsonl"]),
    "copy of a file": ("data.csv", ["apply", "decisions.csv", "data.csv"]),
}


@pytest.mark.parametrize("case", KILLED)
def test_a_kill_at_any_change_of_the_disk_is_made_good_by_the_same_command(case, tmp_path):
    name, words = KILLED[case]
    data = make_data(tmp_path, name)
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    if "undone" in case:
        apply_decisions(decisions, data, in_place=True)
    assert kill_everywhere(tmp_path, *words) == []


def test_a_stop_at_any_change_of_the_disk(tmp_path):
    data = make_data(tmp_path, "data.csv")
    write_decisions(tmp_path / "decisions.csv", data, LINES)
    assert kill_everywhere(tmp_path, *KILLED["file"][1], number=signal.SIGINT) == []


def test_kills_at_random_moments(tmp_path):
    data = make_images(tmp_path / "images", 60)
    write_decisions(tmp_path / "decisions.csv", data, [f"{at},cat,drop," for at in range(29)])

    class Started(Command):
        def kill(self):
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)

    def start(work):
        return Started(*KILLED["folder"][1], cwd=work)

    sign = "images/.changes.jsonl.applying"
    ends = kill_randomly(tmp_path, start, kills=4, seed=0, sign=sign)
    assert ends.total() == 4
    assert not [end for end in ends if "OTHER" in end]


class Killed(BaseException):
    """Ends the process for all that the code under test can do about it."""


@pytest.fixture
def dying(monkeypatch):
    """Lets a call die before the given move of a file."""

    def die_at(number, error):
        link, calls = os.link, itertools.count(1)

        def linked(*names, **options):
            if next(calls) == number:
                raise error
            link(*names, **options)

        monkeypatch.setattr(os, "link", linked)

    yield die_at
    monkeypatch.undo()


def test_any_decisions_finish_what_was_interrupted(tmp_path, dying, monkeypatch):
    data = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    (tmp_path / "other.csv").write_text("index,given_label,decision,new_label\n0,cat,drop,\n")
    dying(2, Killed())
    with pytest.raises(Killed):
        apply_decisions(decisions, data, in_place=True)
    monkeypatch.undo()
    assert (data / ".changes.jsonl.applying" / "journal.json").exists()
    apply_decisions(tmp_path / "other.csv", data, out=tmp_path / "copy")
    assert not (data / ".changes.jsonl.applying").exists()
    assert apply_decisions(decisions, data, in_place=True).already


def test_what_was_interrupted_can_be_undone(tmp_path, dying, monkeypatch):
    data = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    before = tree(data)
    dying(2, Killed())
    with pytest.raises(Killed):
        apply_decisions(decisions, data, in_place=True)
    monkeypatch.undo()
    assert not (data / "changes.jsonl").exists()
    assert undo_decisions(data / "changes.jsonl").dropped == 1
    (data / "changes.jsonl").unlink()
    assert tree(data) == before


def test_a_move_that_fails_is_taken_back_with_all_before_it(tmp_path, dying, monkeypatch):
    data = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    before = tree(tmp_path)
    dying(2, FileExistsError(17, "in the way"))
    with pytest.raises(OSError, match="in the way"):
        apply_decisions(decisions, data, in_place=True)
    assert tree(tmp_path) == before
    monkeypatch.undo()
    assert not apply_decisions(decisions, data, in_place=True).already


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    data = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    before = tree(data)

    def refuse(*names, **options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    log = apply_decisions(decisions, data, in_place=True).log
    assert (data / "dog" / "0004.png").exists()
    undo_decisions(log)
    log.unlink()
    assert tree(data) == before


def test_nothing_is_overwritten_by_what_is_finished_later(tmp_path, dying, monkeypatch):
    data = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    dying(2, Killed())
    with pytest.raises(Killed):
        apply_decisions(decisions, data, in_place=True)
    monkeypatch.undo()
    (data / "dog" / "0004.png").write_text("mine")  # where the second image is to go
    before = tree(tmp_path)
    with pytest.raises(OSError, match=r"0004.png is in the way"):
        apply_decisions(decisions, data, in_place=True)
    assert tree(tmp_path) == before
    (data / "dog" / "0004.png").unlink()
    assert apply_decisions(decisions, data, in_place=True).already


def test_a_file_that_was_edited_after_the_kill_stays_as_it_was_edited(tmp_path, dying, monkeypatch):
    data = make_data(tmp_path, "data.csv")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    dying(1, Killed())  # the backup
    with pytest.raises(Killed):
        apply_decisions(decisions, data, in_place=True)
    monkeypatch.undo()
    data.write_text("x,label\n1,mine\n2,other\n")
    before = {"decisions.csv", "data.csv"}
    with pytest.raises(ValueError, match="of other data"):
        apply_decisions(decisions, data, in_place=True)
    assert data.read_text() == "x,label\n1,mine\n2,other\n"
    assert {*tree(tmp_path)} == before


def forged(**changes):
    """A journal with the right digest."""
    plan = {"kind": "apply", "moves": [], "replaced": [[".changes.jsonl.applying/log", "changes.jsonl"]]}
    with tempfile.TemporaryDirectory() as folder:
        write_sealed(Path(folder, "journal"), {"format": 1, **plan, "expected": "", "folders": [], **changes})
        return Path(folder, "journal").read_text()


@pytest.mark.parametrize(
    "journal",
    [
        "",
        "{}",
        "[1]",
        "5",
        "null",
        forged()[:-9],
        forged().replace("apply", "undo"),
        forged(format=2),
        forged(kind="other"),
        forged(moves=[["cat/0002.png", "../out.png"]]),
        forged(moves=[["cat/0002.png", "/tmp/out.png"]]),
        forged(moves=[["../decisions.csv", "x"]]),
        forged(moves=[["cat/0002.png", "link/out.png"]]),
        forged(moves=[[1, 2, 3]]),
        forged(replaced=[]),
        forged(replaced=[["cat/0002.png", "cat/0004.png"]]),
        forged(replaced=[["cat/0002.png", "changes.jsonl"]]),
        forged(folders=["../.."]),
    ],
)
def test_a_damaged_or_forged_journal_changes_nothing(journal, tmp_path):
    data = make_data(tmp_path, "images")
    (tmp_path / "elsewhere").mkdir()
    (data / "link").symlink_to(tmp_path / "elsewhere")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    (data / ".changes.jsonl.applying").mkdir()
    (data / ".changes.jsonl.applying" / "journal.json").write_text(journal)
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"journal.json, is damaged"):
        apply_decisions(decisions, data, in_place=True)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "line", ["{", "[]", "[" * 10**5, '{"event": "applied", "format": 1}', '{"event": "undone", "format": 1}']
)
def test_a_damaged_log_changes_nothing(line, tmp_path):
    data = make_data(tmp_path, "data.csv")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    (tmp_path / "data.csv.changes.jsonl").write_text(line + "\n")
    before = tree(tmp_path)
    for act in (
        lambda: apply_decisions(decisions, data, in_place=True),
        lambda: undo_decisions(f"{data}.changes.jsonl"),
    ):
        with pytest.raises(ValueError, match="is damaged"):
            act()
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "names",
    [
        {"file": "../mine.png"},
        {"file": "/tmp/mine.png"},
        {"new_file": "../decisions.csv"},
        {"new_file": ""},
        {"file": None},
        {"file": "cat/0004.png"},
        {"new_file": "dog/0001.png"},
        {"new_file": ".dropped/cat/../../../decisions.csv"},
    ],
)
def test_a_forged_log_undoes_nothing(names, tmp_path):
    data = make_data(tmp_path, "images")
    log = apply_decisions(write_decisions(tmp_path / "decisions.csv", data, LINES), data, in_place=True).log
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1] |= names
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=r"nothing is (written|undone)"):
        undo_decisions(log)
    assert tree(tmp_path) == before


def test_two_at_once(tmp_path):
    data = make_data(tmp_path, "images")
    arguments = ("apply", write_decisions(tmp_path / "decisions.csv", data, LINES), data, "--in-place")
    with working_room(data / "changes.jsonl"):
        assert "another process" in antidote(*arguments).complaint
    assert antidote(*arguments).code == 0


def test_a_link_in_place_of_the_room_is_not_entered(tmp_path):
    data = make_data(tmp_path, "images")
    decisions = write_decisions(tmp_path / "decisions.csv", data, LINES)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").touch()
    (data / ".changes.jsonl.applying").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="in the way"):
        apply_decisions(decisions, data, in_place=True)
    assert (tmp_path / "elsewhere" / "mine").exists()
