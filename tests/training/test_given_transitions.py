"""A transition matrix that the user hands over: as a file, an array or the injected one; and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from antidote_learn import inject, train
from antidote_learn.methods.corrections import Backward, Forward, Rw
from antidote_learn.methods.objectives import Antidote
from antidote_learn.training.given_transitions import read_matrix
from antidote_learn.training.prepare import prepare_run
from antidote_learn.training.resolve import Request, resolve_request
from tests.commands import antidote
from tests.methods.stopping import numbers

ROWS = load_iris().data
QUICK = {"noise": "symmetric:0.2", "epochs": 3, "model": "mlp:hidden=[8]"}
T = np.array([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35], [0.0, 0.25, 0.75]])
SINGULAR = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]


def saved(path: Path, matrix: object) -> Path:
    """A file that holds a matrix in the format of its name."""
    if path.suffix == ".json":
        path.write_text(json.dumps(matrix))
    elif path.suffix == ".csv":
        np.savetxt(path, matrix, delimiter=",", fmt="%.17g")
    else:
        np.save(path, matrix)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train("iris", method="ce", out=tmp_path_factory.mktemp("ce"), **QUICK)


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forward")
    file = saved(folder / "t.json", T.tolist())
    return train("iris", method=f"forward:transition={file}", out=folder / "run", **QUICK)


# --- what is handed over ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forward", "backward", "rw", "t-revision"])
def test_with_the_identity_a_correction_ends_with_the_numbers_of_cross_entropy(plain, name, tmp_path):
    file = saved(tmp_path / "eye.csv", np.eye(3))
    epochs = {"epochs": 3} if name != "t-revision" else {"epochs": 1}  # before T is revised
    run = train("iris", method=f"{name}:transition={file}", out=tmp_path / "run", **(QUICK | epochs))
    expected = plain if name != "t-revision" else train("iris", method="ce", out=tmp_path / "ce", **(QUICK | epochs))
    np.testing.assert_allclose(run.predict_proba(ROWS), expected.predict_proba(ROWS), atol=1e-5)
    np.testing.assert_allclose(run.metrics["loss"], expected.metrics["loss"], rtol=1e-5)


def test_another_matrix_gives_other_numbers(plain, corrected):
    assert np.abs(corrected.predict_proba(ROWS) - plain.predict_proba(ROWS)).max() > 0.01
    np.testing.assert_allclose(corrected.transition.transition, T, atol=1e-7)
    assert corrected.summary["transition"]["source"] == "given"


@pytest.mark.parametrize("noise", ["symmetric:0.3", "pair:0.2", "instance:0.3"])
def test_the_injected_matrix_is_that_of_inject(noise, tmp_path):
    asked = Request("iris", method="forward:transition=injected", noise=noise, noise_seed=5, out=tmp_path / "run")
    job = prepare_run(resolve_request(asked))
    clean = job.data.clean_labels
    if noise.startswith("instance"):  # the realised one
        pairs = list(zip(clean.tolist(), job.data.labels.tolist(), strict=True))
        expected = [[pairs.count((i, j)) / (clean == i).sum() for j in range(3)] for i in range(3)]
    else:
        expected = inject(clean, noise, seed=5, num_classes=3).transition
    np.testing.assert_array_equal(job.method.parameters["transition"], expected)
    assert job.spec.method == "forward:transition=injected"
    assert not (tmp_path / "run").exists()


def test_the_injected_matrix_is_used_and_has_no_error(tmp_path):
    run = train("iris", method="forward:transition=injected", out=tmp_path, **QUICK)
    assert run.summary["transition"]["total_variation"] == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(run.transition.transition, 0.7 * np.eye(3) + 0.1, atol=1e-6)


@pytest.mark.parametrize("form", ["t.csv", "t.npy", "t[1]:+.json", "transition.json", "array", "list", "path"])
def test_every_form_of_a_matrix_gives_the_same_numbers(corrected, form, tmp_path):
    if form in ("array", "list"):
        method = Forward(transition=T if form == "array" else T.tolist())
    elif form == "transition.json":
        held = {"format": 1, "source": "given", "transition": T.tolist(), "samples": [0, 0, 0], "classes": ["x"]}
        method = f"forward:transition={saved(tmp_path / form, held)}"
    elif form == "path":
        method = Forward(transition=saved(tmp_path / "t.npy", T))
    else:
        method = f"forward:transition=[{saved(tmp_path / form, T.tolist())}]"
    assert numbers(train("iris", method=method, out=tmp_path / "run", **QUICK), ROWS) == numbers(corrected, ROWS)


def test_the_matrix_of_a_run_can_be_handed_to_the_next_one(tmp_path):
    first = train("iris", method="volminnet", out=tmp_path / "first", **QUICK)
    file = first.folder / "transition.json"
    second = train("iris", method=f"rw:transition={file}", out=tmp_path / "second", **QUICK)
    np.testing.assert_allclose(second.transition.transition, first.transition.transition, atol=1e-6)


def test_objects_hold_objects(tmp_path):
    method = Forward(transition=T, objective=Antidote(noise_rate=0.2))
    run = train("iris", method=method, out=tmp_path / "objects", **QUICK)
    text = f"forward:transition={saved(tmp_path / 't.npy', T)}:objective=[antidote:noise_rate=0.2]"
    assert numbers(run, ROWS) == numbers(train("iris", method=text, out=tmp_path / "text", **QUICK), ROWS)


# --- the folder of a run knows its matrix ----------------------------------------------------------------------------


def test_another_matrix_under_the_same_name_is_refused_on_resume(tmp_path):
    file = saved(tmp_path / "t.json", T.tolist())
    asked = {"method": f"forward:transition={file}", "out": tmp_path / "run", **QUICK}
    run = train("iris", **asked)
    assert run.spec["method"].startswith(f"forward:transition={file}#")
    saved(file, T[:, [0, 1, 2]].tolist())
    assert numbers(train("iris", **asked, resume=True), ROWS) == numbers(run, ROWS)
    saved(file, np.eye(3).tolist())
    with pytest.raises(ValueError, match=f"holds another run: method is 'forward:transition={file}#") as caught:
        train("iris", **asked, resume=True)
    assert "\n" not in str(caught.value)
    there, now = str(caught.value).split("method is ")[1].split(" there, ")
    assert there.split("#")[0] == now.split("#")[0]
    assert there.split("#")[1] != now.split("#")[1].split(" ")[0]


def test_another_array_is_refused_on_resume(tmp_path):
    asked = {"out": tmp_path / "run", **QUICK, "epochs": 1}
    run = train("iris", method=Rw(transition=T), **asked)
    assert "\n" not in run.spec["method"]
    with pytest.raises(ValueError, match="holds another run: method is 'Rw:transition=matrix#"):
        train("iris", method=Rw(transition=np.eye(3)), **asked, resume=True)
    assert numbers(train("iris", method=Rw(transition=T), **asked, resume=True), ROWS) == numbers(run, ROWS)


# --- what is refused, in Python --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (T * 0.9, "rows of a transition matrix must sum to 1; one misses it by 0.1"),
        (np.eye(4), r"must have shape \(3, 3\), as there are 3 classes; received \(4, 4\)"),
        ([[0.5, 0.5], [0.5]], "a transition matrix must hold K rows of K numbers"),
        ({"a": 1}, "a transition matrix must hold K rows of K numbers"),
        ([["x"]], "a transition matrix must hold K rows of K numbers"),
        ([[10**400]], "a transition matrix must hold K rows of K numbers"),
        (np.zeros((0, 0)), r"must have shape \(K, K\); received \(0, 0\)"),
    ],
)
def test_a_bad_array_is_refused_before_anything_is_written(matrix, says, tmp_path):
    with pytest.raises(ValueError, match=says) as caught:
        train("iris", method=Forward(transition=matrix), out=tmp_path / "run", **QUICK)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_singular_array_is_refused_by_backward(tmp_path):
    with pytest.raises(ValueError, match="this transition matrix is singular"):
        train("iris", method=Backward(transition=SINGULAR), out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.json", b"[[1, 0"),
        ("empty.json", b""),
        ("other.json", b'{"a": 1}'),
        ("nested.json", b'{"transition": {"a": 1}}'),
        ("null.json", b"null"),
        ("huge.json", b"[[" + b"9" * 400 + b"]]"),
        ("deep.json", b"[" * 100_000),
        ("binary.json", b"\xff\xfe\x00"),
        ("header.csv", b"a,b,c\n1,0,0\n0,1,0\n0,0,1\n"),
        ("empty.csv", b""),
        ("ragged.csv", b"1,0,0\n0,1\n"),
        ("empty.npy", b""),
        ("text.npy", b"1,0,0\n0,1,0\n0,0,1\n"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(name, content, tmp_path, recwarn):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} holds no transition matrix: .") as caught:
        read_matrix(str(path))
    assert "\n" not in str(caught.value)
    assert not recwarn.list


@pytest.mark.parametrize("kind", ["cut short", "of a huge shape", "of objects", "complex"])
def test_a_damaged_array_file_is_named_in_one_line(kind, tmp_path, recwarn):
    path = saved(tmp_path / "t.npy", np.array([[{}]]) if kind == "of objects" else T + 0j if kind == "complex" else T)
    if kind == "cut short":
        path.write_bytes(path.read_bytes()[:-20])
    if kind == "of a huge shape":
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (10**8, 10**8)}
            np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match=r"t\.npy holds no transition matrix: .") as caught:
        read_matrix(path)
    assert "\n" not in str(caught.value)
    assert not recwarn.list


# --- what is refused, on the command line ----------------------------------------------------------------------------


def refused(method: object, *more: object, out: Path, data: str = "iris") -> tuple[int, str]:
    """The exit code and the one line of a command, which must leave nothing behind if it was refused."""
    epochs = () if "--epochs" in more else ("--epochs", 2)
    done = antidote("train", data, "--method", method, *more, *epochs, "--out", out)
    assert done.complaint.startswith("antidote: ")
    assert "Traceback" not in done.err
    if done.code == 2:
        assert not out.exists()
    return done.code, done.complaint


@pytest.mark.parametrize(
    ("name", "matrix", "method", "says"),
    [
        (
            "t.json",
            (T * 0.9).tolist(),
            "forward",
            "t.json holds no transition matrix: rows of a transition matrix must",
        ),
        ("t.csv", T.T, "forward", "rows of a transition matrix must sum to 1; one misses it by 0.25; its columns do"),
        ("t.json", np.eye(2).tolist(), "rw", "must have shape (3, 3), as there are 3 classes; received (2, 2)"),
        ("t.json", [[1.1, -0.1], [0, 1]], "rent", "must not have negative entries or NaN; its smallest is -0.1"),
        ("t.npy", SINGULAR, "backward", "this transition matrix is singular: classes are labelled alike"),
    ],
)
def test_a_bad_matrix_is_one_line_and_exit_code_2(name, matrix, method, says, tmp_path):
    file = saved(tmp_path / name, matrix)
    code, line = refused(f"{method}:transition={file}", out=tmp_path / "run")
    assert (code, says in line) == (2, True), line


KINDS = "accepted: anchor, anchor-max, dual-t, confident, audit, injected, or a file (.json, .csv, .npy)"


@pytest.mark.parametrize(
    ("method", "more", "says"),
    [
        ("backward:transition=injected", ("--noise", "symmetric:0.6666666666666667"), "matrix is singular"),
        ("backward:transition=injected", ("--noise", "symmetric:0.66666666"), "matrix is singular"),  # in float32
        ("forward:transition=missing.json", (), "there is no file missing.json with a transition matrix"),
        ("forward:transition=guess", (), f"unknown transition 'guess'; {KINDS}"),
        ("forward:transition=", (), f"unknown transition ''; {KINDS}"),
        (
            "t-revision:transition=injected",
            (),
            "transition=injected needs noise that was injected: add --noise, or name",
        ),
        ("forward:objective=[forward]", (), "objective must be a loss or one of antidote, antidote-dataset, "),
        ("mixup:objective=co-teaching", (), "'co-teaching' is a whole training method"),
        ("mixup:objective=nonsense", (), "unknown method 'nonsense'; accepted: antidote, "),
        ("rw:objective=antidote-dro", ("--noise-rate", 0.2), "rw needs an objective that takes weights of samples: a"),
        ("forward", ("--epochs", 1), "forward needs 2 epochs or more, the first ones for its warm-up; got 1"),
        ("nls", ("--epochs", 1), "nls needs 2 epochs or more"),
        ("rrm:penalty=-1", (), "penalty must be a finite number >= 0, got -1.0"),
    ],
)
def test_a_method_that_cannot_be_is_one_line_and_exit_code_2(method, more, says, tmp_path):
    code, line = refused(method, *more, out=tmp_path / "run")
    assert (code, says in line) == (2, True), line


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("forward:transition=confident", "epoch 2: no sample is labelled 1: leave that class out, or use 'dual-t'"),
        ("backward:transition=anchor", "epoch 2: this transition matrix is singular"),
    ],
)
def test_what_only_the_run_can_find_out_is_one_line_and_exit_code_1(method, says, tmp_path):
    """20 digits, of which none is a 1."""
    run = tmp_path / "run"
    code, line = refused(method, "--subset", 20, out=run, data="digits")
    assert (code, says in line) == (1, True), line
    assert {path.name for path in run.rglob("*") if path.is_file()} <= {"spec.json", ".lock"}
    assert refused(method, "--subset", 20, "--resume", out=run, data="digits") == (1, line)


@pytest.mark.parametrize("name", ["forward", "backward", "rw", "rent", "t-revision", "f-div", "nls"])
def test_one_epoch_is_refused_before_anything_is_written(name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} needs 2 epochs or more, the first ones for its warm-up; got 1"):
        train("iris", method=name, epochs=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("epochs", "length"), [(2, 1), (3, 1), (7, 1), (8, 2)])
def test_the_warm_up_is_a_share_of_the_epochs_and_leaves_one(epochs, length, tmp_path):
    run = train("iris", method="forward", out=tmp_path / "run", **(QUICK | {"epochs": epochs}))
    assert run.metrics["stage"].tolist() == ["warm-up"] * length + ["training"] * (epochs - length)
