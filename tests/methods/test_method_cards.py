"""What docstrings say about methods: all of it for those that are built in, nothing but the first line for others."""

import re
from dataclasses import dataclass, fields

import pytest

from antidote_learn.core.divergences import DIVERGENCES
from antidote_learn.core.independent_pairs import GENERATORS
from antidote_learn.core.transition_matrices import ESTIMATORS
from antidote_learn.methods.objectives import Budgeted
from antidote_learn.methods.parameters import method_card
from antidote_learn.registry import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_a_built_in_method_says_everything(name):
    card = method_card(METHODS[name])
    assert all((card.about, card.idea, card.needs, card.when, card.reference))
    assert re.search(r"\b(19|20)\d\d\b", card.reference)
    assert list(card.parameters) == [part.name for part in fields(METHODS[name])]
    assert all(len(text) > 10 and text.endswith(".") for text in card.parameters.values())


def test_words_that_a_parameter_accepts_are_named():
    for name, parameter, words in (
        ("antidote", "divergence", DIVERGENCES),
        ("forward", "transition", ESTIMATORS),
        ("t-revision", "transition", ESTIMATORS),
        ("f-div", "generator", GENERATORS),
    ):
        said = set(re.findall(r"[\w-]+", method_card(METHODS[name]).parameters[parameter]))
        assert set(words) <= said


@dataclass(frozen=True)
class Whole(Budgeted):
    """A method: it has a colon.

    Its idea takes two
    lines: this is the second one.

    A second paragraph.

    Needs: what
        it needs.
    When: now
    Note: this is not asked for.
    Reference: Someone, 2020.

    Args:
        share: Two
            lines: with a colon.
        other: One line.

    Example:
        share: No parameter.
    """

    share: float = 0.5
    other: int = 1


def test_the_parts_of_a_docstring():
    card = method_card(Whole)
    assert card.about == "A method: it has a colon"
    assert card.idea == "Its idea takes two lines: this is the second one.\n\nA second paragraph."
    assert (card.needs, card.when, card.reference) == ("what it needs.", "now", "Someone, 2020.")
    assert list(card.parameters) == [part.name for part in fields(Whole)]
    assert card.parameters["share"] == "Two lines: with a colon."
    assert card.parameters["other"] == "One line."
    assert card.parameters["delta"] == method_card(Budgeted).parameters["delta"]


@dataclass
class Bare:
    share: float = 0.5


class Short:
    """One line."""


class Silent:
    pass


def test_what_a_docstring_does_not_have_is_empty():
    for recipe, about in ((Bare, "Bare(share: float = 0.5)"), (Short, "One line"), (Silent, "")):
        card = method_card(recipe)
        assert card.about == about.removesuffix(".")
        assert (card.idea, card.needs, card.when, card.reference, dict(card.parameters)) == ("", "", "", "", {})
