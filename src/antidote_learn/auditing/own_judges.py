"""Judges that the user adds: any scikit-learn classifiers, checked before the data are read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

METHODS = ("fit", "predict_proba", "get_params")  # what a judge can do, so that it can be copied, fitted and asked
NAME = 60  # the most characters of a judge's name in the report
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the text of an object; it differs from process to process


def check_judges(judges: Any) -> None:
    """Raises a ValueError for anything but a list of classifiers that give probabilities."""
    if not isinstance(judges, Sequence) or isinstance(judges, str):
        raise ValueError(f"judges must be a list of scikit-learn classifiers; received {type(judges).__name__}")
    for number, judge in enumerate(judges):
        if isinstance(judge, type):
            raise ValueError(f"judges[{number}] is a class: give an object, {judge.__name__}()")
        lacking = [name for name in METHODS if not callable(getattr(judge, name, None))]
        if lacking:
            raise ValueError(
                f"judges[{number}] must be a classifier as scikit-learn's, with {', '.join(METHODS)}; received "
                f"{judge_name(judge)} without {lacking[0]}: take one that gives probabilities"
            )


def describe_judges(judges: Sequence[Any]) -> str:
    """Returns a text that tells judges with other parameters apart, the same in every process; empty for none."""
    return "; ".join(f"{type(judge).__name__}({_own_parameters(judge)})" for judge in judges)


def judge_name(judge: Any) -> str:
    """Returns a judge as the user wrote it, in one short line."""
    text = ADDRESS.sub("", " ".join(repr(judge).split()))
    return text if len(text) <= NAME else f"{text[: NAME - 3]}..."


def _own_parameters(judge: Any) -> str:
    """Returns the parameters of a classifier that are not its defaults, in one line."""
    usual = {name: repr(parameter.default) for name, parameter in inspect.signature(type(judge)).parameters.items()}
    values = {name: repr(value) for name, value in sorted(judge.get_params(deep=False).items())}
    own = ", ".join(f"{name}={value}" for name, value in values.items() if usual.get(name) != value)
    return ADDRESS.sub("", " ".join(own.split()))
