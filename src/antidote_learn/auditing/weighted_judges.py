"""Judges of different kinds in one score, each with the weight that makes the given labels likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from antidote_learn.auditing.neighbours import second_votes, votes
from antidote_learn.auditing.scores import FLOOR, LabelScores, Source, Tell, log_odds_of, normalise_rows, tell_nobody
from antidote_learn.auditing.transitions import Transition, transition_of_anchors
from antidote_learn.core.beliefs import Beliefs, blocks
from antidote_learn.core.clean_posteriors import clean_posteriors

ROUNDS = 3  # how often weights, T and the neighbours' votes are settled; more changes little
RIDGE = 0.005  # the price of weights that differ: 0.02 and 0.001 were worse on tables
# The rows at which T is half believed where it corrects ordinary judges: read off few rows, it would push whole classes
# up or down.
HALF_KNOWN = 1000
HEAVIEST = 4.0  # the largest weight of a judge
ENOUGH = 20_000  # the most rows that determine the weights

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def score_judges(
    labels: Integers,
    count: int,
    *,
    robust: Sequence[Beliefs],
    ordinary: Sequence[Beliefs],
    around: Integers,
    trained_on: Beliefs,
    tell: Tell = tell_nobody,
) -> LabelScores:
    """Pools judges with weights, and corrects for how classes are mistaken for one another.

    P_i ∝ exp(sum of w_j log(S_ij + 1e-4)) over the judges j and the neighbours; R_i(k) ∝ P_i(k) T[k, y_i]. The weights
    maximise sum_i log sum_k P_i(k) T[k, y_i], less a small price for weights that differ. An ordinary classifier
    predicts given labels; T turns its probabilities into those of true classes, as far as there are rows enough to know
    T. T comes from the rows that the pool is surest of, so that all of these are settled in turns.

    Args:
        labels: (N,) given labels.
        count: K, the number of classes.
        robust: Held-out predictions of the true classes, by robust training.
        ordinary: Held-out predictions of the given labels.
        around: (N, m) nearest rows.
        trained_on: Predictions in training of the first robust judge, which saw the labels; they have its weight.
        tell: Called with (rows done, N) in each of the passes over the rows.
    """
    trust = np.mean([judge.of(labels) for judge in (*ordinary, *robust)], axis=0)
    voted: Source = partial(_first_votes, around, labels, trust, count)
    weights = np.full(len(ordinary) + len(robust) + 1, 1.0)
    known: Transition | None = None
    for number in range(ROUNDS):
        judges = [*(_clean_source(judge, known) for judge in ordinary), *(judge.dense for judge in robust), voted]
        pool = _pool_weighted(labels, count, judges, weights / weights.sum(), tell)
        confidence = pool.probs[:, 0].astype(np.float64)
        known = transition = transition_of_anchors(pool.classes[:, 0].astype(np.int64), confidence, labels, count)
        weights = likeliest_weights(labels, judges, transition)
        if number < ROUNDS - 1:
            beliefs = _judge_labels(labels, count, judges, weights, transition, tell).posterior
            voted = partial(_later_votes, around, beliefs)
    own = weights[len(ordinary)]
    shares = np.append(weights, own) * (weights.sum() / (weights.sum() + own))
    return _judge_labels(labels, count, [*judges, trained_on.dense], shares, transition, tell, held_out=weights)


def likeliest_weights(labels: Integers, judges: Sequence[Source], transition: Transition) -> Floats:
    """The weights (J,), not negative, that make the given labels likeliest, over at most 20 000 rows.

    Args:
        labels: (N,) given labels.
        judges: The judges' probabilities of some rows.
        transition: T, how classes are mistaken for one another.
    """
    rows = np.sort(np.random.default_rng(0).permutation(len(labels))[:ENOUGH])
    logs = np.stack([np.log(judge(rows) + FLOOR) for judge in judges])
    towards = transition.towards(labels[rows])

    def cost(weights: Floats) -> tuple[float, Floats]:
        pool = normalise_rows(np.tensordot(weights, logs, 1))
        joint = pool * towards
        likelihood = joint.sum(axis=1)
        slope = np.einsum("jbk,bk->j", logs, joint / likelihood[:, None] - pool) / len(rows)
        apart = weights - weights.mean()
        return float(RIDGE * apart @ apart - np.log(likelihood).mean()), 2.0 * RIDGE * apart - slope

    start, limits = np.full(len(judges), 1.0 / len(judges)), [(0.0, HEAVIEST)] * len(judges)
    found: Floats = minimize(cost, start, jac=True, bounds=limits, method="L-BFGS-B").x
    return found if found.sum() > 0.0 else start


def _judge_labels(
    labels: Integers,
    count: int,
    judges: Sequence[Source],
    weights: Floats,
    transition: Transition,
    tell: Tell,
    held_out: Floats | None = None,
) -> LabelScores:
    """The posterior of every row; with ``held_out``, the weights of the first judges, also their own pool and doubt."""
    own = weights if held_out is None else held_out
    posterior, pool = Beliefs.blank(len(labels), count), Beliefs.blank(len(labels), count)
    odds, doubt = np.empty(len(labels)), 0.0
    for rows in blocks(len(labels), count):
        given = labels[rows]
        said = np.stack([np.log(judge(rows) + FLOOR) for judge in judges])
        towards = transition.towards(given)
        logs = np.tensordot(weights, said, 1) + np.log(towards)
        posterior.put(rows, normalise_rows(logs), given)
        odds[rows] = log_odds_of(logs, given)
        probs = normalise_rows(np.tensordot(own, said[: len(own)], 1))
        pool.put(rows, probs, given)
        doubt += float((1.0 - (probs * towards).sum(axis=1)).sum())
        tell(rows.stop, len(labels))
    return LabelScores(posterior, odds, transition, pool, doubt)


def _pool_weighted(labels: Integers, count: int, judges: Sequence[Source], shares: Floats, tell: Tell) -> Beliefs:
    """The geometric mean of the judges, by shares."""
    pool = Beliefs.blank(len(labels), count)
    for rows in blocks(len(labels), count):
        logs = np.stack([np.log(judge(rows) + FLOOR) for judge in judges])
        pool.put(rows, normalise_rows(np.tensordot(shares, logs, 1)), labels[rows])
        tell(rows.stop, len(labels))
    return pool


def _clean_source(judge: Beliefs, transition: Transition | None) -> Source:
    """The judge's probabilities of true classes; those of given labels while T is unknown."""
    if transition is None:
        return judge.dense
    belief = len(judge) / (len(judge) + HALF_KNOWN)
    matrix = belief * transition.towards(np.arange(judge.count)).T + (1.0 - belief) * np.eye(judge.count)
    return lambda rows: clean_posteriors(judge.dense(rows), matrix)


def _first_votes(around: Integers, labels: Integers, trust: Floats, count: int, rows: Integers | slice) -> Floats:
    return votes(around[rows], labels, trust, count)


def _later_votes(around: Integers, beliefs: Beliefs, rows: Integers | slice) -> Floats:
    return second_votes(around[rows], beliefs)
