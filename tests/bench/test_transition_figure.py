"""The heat map of a transition matrix: what it shows for few, ten and many classes, and for odd names."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image

from antidote_learn import TransitionEstimate
from antidote_learn.bench.plots import save
from antidote_learn.bench.transition_figure import COLOURS, draw_matrices
from antidote_learn.training.transition_file import RunTransition

NOTE = "forward on mine.csv, noise pair:0.3"


def pair(count, rate):
    return (1.0 - rate) * np.eye(count) + rate * np.roll(np.eye(count), 1, axis=1)


def found(count, *, truth=True, source="dual-t"):
    estimate = TransitionEstimate(pair(count, 0.25), np.ones(count, int), np.zeros((count, count)), source)
    return RunTransition(estimate, pair(count, 0.3) if truth else None)


def names(count):
    return [f"class {number}" for number in range(count)]


def matrices(figure):
    return [axis for axis in figure.axes if axis.images]


def entries(axis):
    cells = [text for text in axis.texts if text.get_ha() == "center"]
    return [text.get_text() for text in sorted(cells, key=lambda text: text.get_position()[::-1])]


def ticks(axis):
    return [tick.get_text() for tick in axis.get_xticklabels()]


def words(figure):
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def test_the_method_is_on_the_left_the_truth_on_the_right_and_the_error_in_the_title():
    figure = draw_matrices(found(3), names(3), NOTE)
    left, right = matrices(figure)
    assert left.get_position().x1 < right.get_position().x0
    assert (left.get_title("left"), right.get_title("left")) == ("T of the method (dual-t)", "true T")
    np.testing.assert_array_equal(left.images[0].get_array(), pair(3, 0.25))
    np.testing.assert_array_equal(right.images[0].get_array(), pair(3, 0.3))
    assert "Transition matrix, total variation error 0.050" in words(figure)
    assert NOTE in words(figure)


def test_without_the_truth_there_is_one_matrix_and_no_error():
    figure = draw_matrices(found(3, truth=False, source=""), names(3), NOTE)
    (only,) = matrices(figure)
    assert only.get_title("left") == "T of the method"
    assert "Transition matrix" in words(figure)


def test_rows_are_true_classes_and_columns_given_labels():
    left, right = matrices(draw_matrices(found(3), names(3), NOTE))
    assert (left.get_ylabel(), left.get_xlabel()) == ("true class", "given label")
    assert ticks(left) == names(3) == [tick.get_text() for tick in left.get_yticklabels()]
    assert not right.get_yticklabels()  # they stand on the left already
    low, high = left.get_ylim()
    assert low > high  # the first class is on top
    assert entries(left) == ["0.75", "0.25", "0", "0", "0.75", "0.25", "0.25", "0", "0.75"]


@pytest.mark.parametrize(("count", "cells"), [(10, 100), (11, 0), (20, 0)])
def test_up_to_ten_classes_have_their_entries_and_up_to_twenty_their_names(count, cells):
    for axis in matrices(draw_matrices(found(count), names(count), NOTE)):
        assert len(entries(axis)) == cells
        assert ticks(axis) == names(count)


@pytest.mark.parametrize("count", [21, 100])
def test_many_classes_have_a_few_numbers(count):
    left, right = matrices(draw_matrices(found(count), names(count), NOTE))
    assert not entries(left) + entries(right)
    for numbers in (ticks(left), ticks(right), [tick.get_text() for tick in left.get_yticklabels()]):
        assert 3 < len(numbers) < 10
        assert "." not in "".join(numbers)  # a class has no half


def test_names_stay_readable():
    """Long ones lose their middle, formulas are no mathematics, and letters that the font lacks become numbers."""
    long = [f"a very long name of class {number}" for number in range(3)]
    assert ticks(matrices(draw_matrices(found(3), long, NOTE))[0]) == [f"a very l…class {n}" for n in range(3)]
    assert ticks(matrices(draw_matrices(found(3), ["猫", "犬", "a\nb"], NOTE))[0]) == ["0", "1", "2"]


@pytest.mark.parametrize("classes", [["$x$", r"$\bad$", "_^"], ["猫", "犬", "鳥"], ["a\nb", "", " "]])
def test_odd_names_are_drawn_without_a_warning(classes, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw_matrices(found(3, source=r"$\bad$"), classes, r"ce on $\bad$.csv")
        assert save(figure, tmp_path / "odd.png", crop=True).stat().st_size > 5000


def test_names_side_by_side_do_not_overlap():
    for classes in (names(3), names(10), ["x" * 16] * 3, [str(number) for number in range(10)]):
        figure = draw_matrices(found(len(classes)), classes, NOTE)
        figure.canvas.draw()
        boxes = [tick.get_window_extent() for tick in matrices(figure)[0].get_xticklabels()]
        assert all(a.x1 <= b.x0 for a, b in pairwise(boxes)), classes


def test_darker_is_more_without_colours_too():
    """The luminance falls from entry to entry, so that a colour-blind reader and a grey print see the same order."""
    luminance = colormaps[COLOURS](np.linspace(0.0, 1.0, 101))[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(luminance) < 0.0).all()


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_the_picture_is_whole_and_every_entry_is_in_it(count, tmp_path):
    """Nothing is cut off at the border; the two matrices have the pixels of their colours."""
    path = save(draw_matrices(found(count), names(count), NOTE), tmp_path / "T.png", crop=True)
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    border = np.concatenate([pixels[:3].reshape(-1, 3), pixels[-3:].reshape(-1, 3), *pixels[:, [0, -1]].swapaxes(0, 1)])
    assert (border == 255).all()
    for value in (0.75, 0.25, 0.7, 0.3):
        colour = np.round(255 * np.array(colormaps[COLOURS](np.sqrt(value))[:3]))
        close = (np.abs(pixels - colour).max(axis=2) <= 1).sum()
        assert close > 0.5 * 500**2 / count / 2, value
