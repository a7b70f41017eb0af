"""The true labels solve the relaxed problem: both theorems by exhaustive search on small finite spaces.

thm:exact_sol_main = thm:h_star_unique_sol_app (the only solution, where the rate is constant) and
thm:exact_labels_solve_relaxed_problem (a solution, perhaps not the only one), over all hard classifiers and over
probability vectors on a grid; then a counter-example for each assumption.

On a finite space every loss is lower semicontinuous and every ball is compact, so that an infinite f* (Jensen-Shannon,
squared Hellinger) does no harm. An infinite f(0) makes the theorem's budget infinite: it does not apply.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import (
    DIVERGENCES,
    LOSSES,
    Space,
    absolute_error,
    budget,
    can_be_zero,
    cross_entropy,
    fitted_mass,
    hard_classifiers,
    linear_program,
    relaxed_value,
    soft_classifiers,
)

from antidote_learn import delta_from_rate

ZERO = 1e-9  # a value that is 0 up to rounding
MARGIN = 1e-5  # every other value is larger; squared Hellinger, whose slope at 0 is infinite, comes closest

CONSTANT_RATE = [
    Space("two samples, two labels, 5 %", (0.5, 0.5), (0, 1), ((0.95, 0.05), (0.05, 0.95))),
    Space("three samples, two labels, 40 %", (0.5, 0.3, 0.2), (0, 1, 1), ((0.6, 0.4), (0.4, 0.6), (0.4, 0.6))),
    Space("two samples, three labels, 55 %", (0.7, 0.3), (2, 0), ((0.2, 0.35, 0.45), (0.45, 0.4, 0.15))),
    Space("labels that never occur", (0.4, 0.6), (1, 1), ((0.0, 0.7, 0.3), (0.3, 0.7, 0.0))),
    Space("a sample that never occurs", (0.0, 0.6, 0.4), (0, 1, 0), ((0.7, 0.3), (0.3, 0.7), (0.7, 0.3))),
]
VARYING_RATE = [
    Space("easy and hard", (0.5, 0.5), (0, 1), ((0.95, 0.05), (0.4, 0.6))),
    Space("a wrong majority", (0.6, 0.4), (0, 1), ((0.8, 0.2), (0.7, 0.3))),
    Space("three labels", (0.3, 0.7), (2, 0), ((0.1, 0.1, 0.8), (0.5, 0.3, 0.2))),
]

each_divergence = pytest.mark.parametrize("divergence", DIVERGENCES)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)


def rate(space: Space) -> float:
    """r, where the rate does not depend on the sample."""
    assert np.ptp(space.kept) < 1e-12
    return 1 - space.kept[0]


def minimisers(classifiers, value):
    """All classifiers of the family whose value is the smallest, and how far the next value lies above it."""
    family = list(classifiers)
    values = np.array([value(h) for h in family])
    best = values <= values.min() + ZERO
    return (
        [h for h, chosen in zip(family, best, strict=True) if chosen],
        values.min(),
        values[~best].min(initial=np.inf),
    )


# --- the theorem -----------------------------------------------------------------------------------------------------


@each_divergence
@each_loss
@pytest.mark.parametrize("space", CONSTANT_RATE, ids=str)
def test_the_true_labels_are_the_only_hard_solution(space, loss, divergence):
    delta = delta_from_rate(rate(space), divergence)
    found, least, gap = minimisers(
        hard_classifiers(space), partial(relaxed_value, space, loss=loss, divergence=divergence, delta=delta)
    )
    assert least == pytest.approx(0, abs=ZERO)
    assert gap > MARGIN
    assert all(space.same(h) for h in found)


@each_divergence
@each_loss
@pytest.mark.parametrize("space", CONSTANT_RATE, ids=str)
def test_the_true_labels_are_the_only_solution_among_probabilities(space, loss, divergence):
    delta = delta_from_rate(rate(space), divergence)
    found, least, gap = minimisers(
        soft_classifiers(space, steps=4),
        partial(relaxed_value, space, loss=loss, divergence=divergence, delta=delta),
    )
    assert least == pytest.approx(0, abs=ZERO)
    assert gap > MARGIN
    assert all(space.same(h) for h in found)


@each_divergence
@pytest.mark.parametrize("space", CONSTANT_RATE, ids=str)
def test_the_budget_is_the_divergence_of_the_clean_from_the_noisy_distribution(space, divergence):
    assert budget(space, divergence) == pytest.approx(delta_from_rate(rate(space), divergence), rel=1e-12)


@each_divergence
@pytest.mark.parametrize("space", CONSTANT_RATE, ids=str)
def test_a_smaller_budget_leaves_the_true_labels_a_positive_value(space, divergence):
    delta = delta_from_rate(0.9 * rate(space), divergence)
    assert relaxed_value(space, space.exact, absolute_error, divergence, delta) > MARGIN
    assert relaxed_value(space, space.exact, cross_entropy, divergence, delta) == np.inf


@st.composite
def spaces_of_constant_rate(draw):
    """Two or three samples and labels, one rate, every wrong label less likely than the true one."""
    samples, labels = draw(st.integers(2, 3)), draw(st.integers(2, 3))
    ticks = st.integers(1, 5)
    marginal = np.array(draw(st.lists(ticks, min_size=samples, max_size=samples)), dtype=float)
    truth = draw(st.lists(st.integers(0, labels - 1), min_size=samples, max_size=samples))
    kept = draw(st.integers(round(100 / labels) + 4, 95)) / 100
    noise = []
    for label in truth:
        wrong = np.array(draw(st.lists(ticks, min_size=labels - 1, max_size=labels - 1)), dtype=float)
        wrong *= (1 - kept) / wrong.sum()
        excess = np.maximum(wrong - (kept - 0.03), 0)  # hand what is too much to the other wrong label
        wrong += excess[::-1] - excess
        noise.append(tuple(np.insert(wrong, label, kept)))
    return Space("random", tuple(marginal / marginal.sum()), tuple(truth), tuple(noise))


@settings(deadline=None, max_examples=60)
@given(space=spaces_of_constant_rate(), divergence=st.sampled_from(DIVERGENCES), loss=st.sampled_from(LOSSES))
def test_the_true_labels_are_the_only_hard_solution_of_random_spaces(space, divergence, loss):
    delta = delta_from_rate(rate(space), divergence)
    for h in hard_classifiers(space):
        value = relaxed_value(space, h, loss, divergence, delta)
        assert (value < ZERO) == space.same(h) == can_be_zero(space, h, divergence, delta)


# --- the weaker theorem ----------------------------------------------------------------------------------------------


@each_divergence
@each_loss
@pytest.mark.parametrize("factor", [1.0, 1.5, 10.0])
@pytest.mark.parametrize("space", CONSTANT_RATE + VARYING_RATE, ids=str)
def test_the_true_labels_are_a_solution_for_every_budget_that_reaches_the_clean_distribution(
    space, factor, loss, divergence
):
    delta = factor * budget(space, divergence)
    values = [relaxed_value(space, h, loss, divergence, delta) for h in hard_classifiers(space)]
    assert min(values) >= 0
    assert relaxed_value(space, space.exact, loss, divergence, delta) < ZERO


@each_loss
@pytest.mark.parametrize("space", VARYING_RATE, ids=str)
def test_the_weaker_theorem_needs_no_strict_convexity(space, loss):
    total_variation = float(np.dot(space.marginal, 1 - space.kept))  # of P* from P_T
    assert linear_program(space, space.exact, loss, total_variation) < ZERO


@each_divergence
def test_no_budget_helps_where_the_true_label_never_occurs(divergence):
    space = Space("hopeless", (0.5, 0.5), (0, 0), ((0.0, 0.4, 0.6), (0.0, 0.9, 0.1)))
    for delta in (0.1, 1.0, 100.0):
        assert relaxed_value(space, space.exact, absolute_error, divergence, delta) == pytest.approx(1, abs=ZERO)
        assert relaxed_value(space, space.exact, cross_entropy, divergence, delta) == np.inf


# --- a counter-example for each assumption ---------------------------------------------------------------------------


@each_divergence
@each_loss
@pytest.mark.parametrize("kept", [0.4, 0.5])
def test_a_wrong_label_as_frequent_as_the_true_one_solves_it_too(kept, loss, divergence):
    space = Space("wrong majority", (0.5, 0.5), (0, 1), ((kept, 1 - kept), (1 - kept, kept)))
    found, least, _ = minimisers(
        hard_classifiers(space),
        partial(relaxed_value, space, loss=loss, divergence=divergence, delta=delta_from_rate(rate(space), divergence)),
    )
    assert least == pytest.approx(0, abs=ZERO)
    assert len(found) == 4  # both samples may be given either label


DEPENDENT = Space("the rate depends on the sample", (0.9, 0.1), (0, 1), ((0.95, 0.05), (0.49, 0.51)))
FLIPPED = np.array([[1.0, 0.0], [1.0, 0.0]])


@each_divergence
@each_loss
def test_a_rate_that_depends_on_the_sample_admits_wrong_labels(loss, divergence):
    """Q may take its mass from the noisy sample and spend what it saves on a wrong label there."""
    delta = budget(DEPENDENT, divergence)
    assert relaxed_value(DEPENDENT, DEPENDENT.exact, loss, divergence, delta) < ZERO
    assert relaxed_value(DEPENDENT, FLIPPED, loss, divergence, delta) < ZERO
    largest = delta_from_rate(1 - DEPENDENT.kept.min(), divergence)
    assert relaxed_value(DEPENDENT, FLIPPED, loss, divergence, largest) < ZERO


@each_divergence
@each_loss
@pytest.mark.parametrize("space", [DEPENDENT, VARYING_RATE[0], VARYING_RATE[2]], ids=str)
def test_the_budget_of_the_mean_rate_restores_uniqueness_where_the_true_label_is_the_majority(space, loss, divergence):
    """Beyond the theorem: the cheapest Q on the pairs that h fits costs delta(1 - P_T(h fits)), least for h*."""
    mean_rate = 1 - fitted_mass(space, space.exact)
    delta = delta_from_rate(mean_rate, divergence)
    assert delta < budget(space, divergence)
    found, least, gap = minimisers(
        hard_classifiers(space), partial(relaxed_value, space, loss=loss, divergence=divergence, delta=delta)
    )
    assert least == pytest.approx(0, abs=ZERO)
    assert gap > MARGIN
    assert all(space.same(h) for h in found)


@each_divergence
@each_loss
def test_without_the_true_labels_in_the_family_another_classifier_wins_at_a_positive_value(loss, divergence):
    space = CONSTANT_RATE[1]
    family = [h for h in soft_classifiers(space, steps=3) if not space.same(h)]
    found, least, _ = minimisers(
        family,
        partial(relaxed_value, space, loss=loss, divergence=divergence, delta=delta_from_rate(rate(space), divergence)),
    )
    assert least > MARGIN
    assert found
    assert not any(space.same(h) for h in found)


def margin_loss(p):
    """0 as soon as the label has half of the probability."""
    return np.maximum(0.5 - p, 0)


def mistakes(p):
    """0 as soon as no other label is more probable."""
    return (p < p.max(axis=-1, keepdims=True)).astype(float)


@each_divergence
@pytest.mark.parametrize("loss", [margin_loss, mistakes], ids=lambda loss: loss.__name__)
def test_a_loss_with_another_zero_is_solved_by_unsure_classifiers(loss, divergence):
    space = CONSTANT_RATE[0]
    found, least, _ = minimisers(
        soft_classifiers(space, steps=4),
        partial(relaxed_value, space, loss=loss, divergence=divergence, delta=delta_from_rate(rate(space), divergence)),
    )
    assert least == pytest.approx(0, abs=ZERO)
    assert any(space.same(h) for h in found)
    assert any((h == 0.5).all() for h in found)  # even one that knows nothing


@each_loss
def test_a_generator_that_is_flat_up_to_the_weight_of_kept_samples_admits_wrong_labels(loss):
    """f(t) = max(t - 2, 0): weights up to 2 are free, so that any half of the mass may be forgotten at delta = 0."""
    space = Space("uneven", (0.8, 0.2), (0, 1), ((0.7, 0.3), (0.3, 0.7)))
    flipped = np.array([[1.0, 0.0], [1.0, 0.0]])
    delta = 0.3 * max(0 - 2, 0) + 0.7 * max(1 / 0.7 - 2, 0)
    assert delta == 0
    assert linear_program(space, space.exact, loss, delta, free=2.0) < ZERO
    assert linear_program(space, flipped, loss, delta, free=2.0) < ZERO


@each_loss
@pytest.mark.parametrize("space", CONSTANT_RATE, ids=str)
def test_total_variation_though_piecewise_linear_still_has_only_the_true_labels(space, loss):
    """Strict convexity is more than is needed: f may not be affine on [0, 1 / (1 - r)], and |t - 1| / 2 bends at 1."""
    found, least, gap = minimisers(
        soft_classifiers(space, steps=3 if len(space.noise[0]) == 2 else 2),
        partial(linear_program, space, loss=loss, delta=rate(space)),
    )
    assert least == pytest.approx(0, abs=ZERO)
    assert gap > MARGIN
    assert all(space.same(h) for h in found)


@each_divergence
@pytest.mark.parametrize("space", CONSTANT_RATE + VARYING_RATE, ids=str)
def test_the_value_is_zero_exactly_where_enough_mass_is_fitted(space, divergence):
    """The solver against a criterion that solves nothing, over budgets on both sides."""
    for share in (0.2, 0.5, 0.9, 1.1):
        delta = share * budget(space, divergence)
        for h in soft_classifiers(space, steps=2):
            value = relaxed_value(space, h, absolute_error, divergence, delta)
            assert (value < ZERO) == can_be_zero(space, h, divergence, delta)
