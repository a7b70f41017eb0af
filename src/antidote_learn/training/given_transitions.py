"""The transition matrix that a user hands to a method: a file, an array, or that of the injected noise."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from antidote_learn.core.transition_matrices import ESTIMATORS, check_transition
from antidote_learn.registry import MethodSpec

if TYPE_CHECKING:
    from antidote_learn.data.prepared import Prepared

INJECTED = "injected"  # the word for the matrix of the injected noise
AUTO = "auto"  # the word for the matrix that two networks estimate, each from the half that it did not train on
SUFFIXES = (".json", ".csv", ".npy")  # the files that hold a matrix
MOST_BYTES = 2**30  # the largest file that is read: 10 000 classes in decimal digits


def asks_for_injected(method: MethodSpec) -> bool:
    """Whether the method asks for the transition matrix of the injected noise."""
    return _asks_for(method, INJECTED)


def asks_for_estimate(method: MethodSpec) -> bool:
    """Whether the method asks for the transition matrix that held-out predictions give."""
    return _asks_for(method, AUTO)


def _asks_for(method: MethodSpec, word: str) -> bool:
    source = method.value("transition")
    return isinstance(source, str) and source == word


def check_source(method: MethodSpec) -> None:
    """Reads the matrix that a method is given, if any, to refuse a bad one before the data are read.

    Raises:
        ValueError: It is no transition matrix, or no name of an estimator.
        FileNotFoundError: There is no such file.
    """
    if _is_given(method):
        read_matrix(method.value("transition"))


def wire_transition(method: MethodSpec, data: Prepared) -> tuple[MethodSpec, str]:
    """The method with the matrix that it is given, if any, and its text for the spec, with a digest of the matrix.

    Raises:
        ValueError: The matrix does not fit the classes of the data.
    """
    if asks_for_injected(method):
        from antidote_learn.data.prepared import true_transition

        return method.with_parameters(transition=true_transition(data)), str(method)
    if not _is_given(method):
        return method, str(method)
    source = method.value("transition")
    matrix = check_transition(read_matrix(source), classes=len(data.classes))
    digest = hashlib.sha256(matrix.astype("<f8").tobytes()).hexdigest()[:16]
    name = source if isinstance(source, str) else "matrix"
    return method.with_parameters(transition=matrix), str(method.with_parameters(transition=f"{name}#{digest}"))


def read_matrix(source: Any) -> NDArray[np.float64]:
    """The transition matrix in a file, or in an array or a list of rows.

    A ``.json`` file holds a list of rows, or is the transition.json of a run; a ``.csv`` file holds numbers alone.

    Raises:
        ValueError: It is no transition matrix, or no file of a known kind.
        FileNotFoundError: There is no such file.
    """
    if not isinstance(source, (str, Path)):
        return check_transition(source)
    path = Path(source)
    if path.suffix not in SUFFIXES:
        accepted = f"{AUTO}, {', '.join(ESTIMATORS)}, {INJECTED}, or a file ({', '.join(SUFFIXES)})"
        raise ValueError(f"unknown transition {str(source)!r}; accepted: {accepted}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} with a transition matrix")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is too large for a transition matrix: {path.stat().st_size} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns of an empty file, and of complex numbers
            return check_transition(_read_rows(path))
    except (ValueError, EOFError, RecursionError, MemoryError, Warning) as error:
        raise ValueError(f"{path} holds no transition matrix: {error}") from error


def _read_rows(path: Path) -> Any:
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    found = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(found, dict) and "transition" not in found:
        raise ValueError("it is neither a list of rows nor the transition.json of a run")
    return found["transition"] if isinstance(found, dict) else found


def _is_given(method: MethodSpec) -> bool:
    """Whether the method is given a matrix, and neither an estimator's name nor the injected noise."""
    source = method.value("transition")
    if source is None:
        return False
    return not isinstance(source, str) or source not in (*ESTIMATORS, INJECTED, AUTO)
