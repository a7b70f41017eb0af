"""Scores say how far each label can be trusted, from predictions and neighbours: pure functions, O(N)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antidote_learn.auditing.neighbours import SMOOTHING, second_votes, votes
from antidote_learn.auditing.transitions import Transition, transition_of_anchors
from antidote_learn.core.beliefs import Beliefs, blocks

FLOOR = 1e-4  # added to every probability before pooling, so that no source forbids a class
MANY = 100  # the number of classes above which the sum of the added floors stays the same
TINY = 1e-12  # the least probability of a class, whose logarithm is taken
POWERS = np.geomspace(1.0, 4.0, 9)  # the grid of b: a pool can be too cautious, and powers below 1 were no better
ENOUGH = 2**24  # the most probabilities that the choice of b looks at, which bounds its time
SLACK = 1e-3  # a gain in log likelihood that is no reason for a larger power

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Tell = Callable[[int, int], None]
Source = Callable[[Integers | slice], Floats]  # gives the probabilities (B, K) of some rows


def tell_nobody(done: int, total: int) -> None:
    """Reports to nobody."""


@dataclass(frozen=True, eq=False)
class LabelScores:
    """The beliefs of an audit about its rows.

    Attributes:
        posterior: R_i(k), the probability that row i belongs to class k, given its label and all evidence.
        log_odds: (N,) log odds of R_i(y_i), which rank the rows: the lowest are the worst.
        transition: T, how classes are mistaken for one another.
        pool: P, what the judges that did not see a row's own label say together.
        doubt: The sum over the rows of their probability of another given label, 1 - (P_i T)[y_i].
    """

    posterior: Beliefs
    log_odds: Floats
    transition: Transition
    pool: Beliefs
    doubt: float

    @property
    def likeliest_class(self) -> Integers:
        """The likeliest class (N,) of each row."""
        return self.posterior.classes[:, 0].astype(np.int64)

    @property
    def quality(self) -> Floats:
        """The probability (N,) R_i(y_i) that each label is right."""
        quality: Floats = 1.0 / (1.0 + np.exp(-self.log_odds))
        return quality


def score(
    labels: Integers,
    count: int,
    *,
    said: Sequence[Beliefs] = (),
    around: Integers | None = None,
    trained_on: Beliefs | None = None,
    trust: Floats | None = None,
    tell: Tell = tell_nobody,
) -> LabelScores:
    """Pools the predictions for every row, and corrects them for how classes are mistaken for one another.

    P_i ∝ exp(mean of log(S_i + 1e-4)) over the sources S (1e-2 / K with K > 100 classes); R_i(k) ∝ P_i(k)^b T[k, y_i].
    The pool is too cautious, the more so the fewer rows there are: b >= 1 makes the given labels likeliest. Only the
    sources that did not see a row's own label determine T and b, as the others are surest of rows that are labelled
    rightly. Neighbours are a source, too, and vote twice: with their labels, then with the beliefs about them.

    Args:
        labels: (N,) given labels.
        count: K, the number of classes.
        said: The sources that did not see the row: held-out predictions.
        around: (N, m) nearest rows.
        trained_on: A source that saw the row's label: predictions in training.
        trust: (N,) trust in the neighbours' labels in the first vote; None goes by their own neighbours.
        tell: Called with (rows done, N) in each of the two or four passes over the rows.
    """
    held_out, seen = [source.dense for source in said], [] if trained_on is None else [trained_on.dense]
    if around is None:
        return _score_pool(labels, *_pool_sources(labels, count, held_out, seen, tell), tell)
    weights = _neighbour_agreement(labels, around, count) if trust is None else trust
    voted = [*held_out, lambda rows: votes(around[rows], labels, weights, count)]
    first = _score_pool(labels, *_pool_sources(labels, count, voted, seen, tell), tell).posterior
    voted = [*held_out, lambda rows: second_votes(around[rows], first)]
    return _score_pool(labels, *_pool_sources(labels, count, voted, seen, tell), tell)


def _neighbour_agreement(labels: Integers, around: Integers, count: int) -> Floats:
    """Returns the share (N,) of neighbours that have the row's label."""
    same = (labels[around] == labels[:, None]).sum(axis=1)
    share: Floats = (same + SMOOTHING / count) / (around.shape[1] + SMOOTHING)
    return share


def _pool_sources(
    labels: Integers, count: int, held_out: Sequence[Source], seen: Sequence[Source], tell: Tell
) -> tuple[Beliefs, Beliefs]:
    """Returns the geometric means of all sources, and of the sources that did not see a row's label."""
    pool, floor = Beliefs.blank(len(labels), count), FLOOR * min(1.0, MANY / count)
    judge = Beliefs.blank(len(labels), count) if seen else pool
    for rows in blocks(len(labels), count):
        logs = [np.log(source(rows) + floor) for source in (*held_out, *seen)]
        pool.put(rows, normalise_rows(np.mean(logs, axis=0)), labels[rows])
        if seen:
            judge.put(rows, normalise_rows(np.mean(logs[: len(held_out)], axis=0)), labels[rows])
        tell(rows.stop, len(labels))
    return pool, judge


def _score_pool(labels: Integers, pool: Beliefs, judge: Beliefs, tell: Tell) -> LabelScores:
    predicted, confidence = judge.classes[:, 0].astype(np.int64), judge.probs[:, 0].astype(np.float64)
    transition = transition_of_anchors(predicted, confidence, labels, pool.count)
    power = likeliest_power(labels, judge, transition)
    posterior, log_odds, doubt = Beliefs.blank(len(labels), pool.count), np.empty(len(labels)), 0.0
    for rows in blocks(len(labels), pool.count):
        given = labels[rows]
        towards = transition.towards(given)
        logs = power * _logs(pool, rows) + np.log(towards)
        posterior.put(rows, normalise_rows(logs), given)
        log_odds[rows] = log_odds_of(logs, given)
        doubt += float((1.0 - (normalise_rows(power * _logs(judge, rows)) * towards).sum(axis=1)).sum())
        tell(rows.stop, len(labels))
    return LabelScores(posterior, log_odds, transition, judge, doubt)


def likeliest_power(labels: Integers, pool: Beliefs, transition: Transition) -> float:
    """Returns the least b of a grid that maximises sum_i log sum_k Q_i(k) T[k, y_i], Q_i ∝ P_i^b, over many rows.

    Args:
        labels: (N,) given labels.
        pool: P, the pooled predictions.
        transition: T, how classes are mistaken for one another.
    """
    looked_at = np.random.default_rng(0).permutation(len(labels))[: max(1, ENOUGH // pool.count)]
    likelihoods = np.zeros(len(POWERS))
    for part in blocks(len(looked_at), pool.count):
        rows = looked_at[part]
        logs, towards = _logs(pool, rows), transition.towards(labels[rows])
        likelihoods += [np.log((normalise_rows(b * logs) * towards).sum(axis=1)).sum() for b in POWERS]
    return float(POWERS[np.argmax(likelihoods >= likelihoods.max() - SLACK)])


def _logs(pool: Beliefs, rows: Integers | slice) -> Floats:
    logs: Floats = np.log(np.maximum(pool.dense(rows), TINY))
    return logs


def normalise_rows(logs: Floats) -> Floats:
    """Returns the probabilities (B, K) that have these logarithms up to a constant in each row."""
    block = np.exp(logs - logs.max(axis=1, keepdims=True))
    normal: Floats = block / block.sum(axis=1, keepdims=True)
    return normal


def log_odds_of(logs: Floats, labels: Integers) -> Floats:
    """Returns the log odds (B,) of the given label against all others, with all digits near certainty."""
    own = np.take_along_axis(logs, labels[:, None], axis=1)[:, 0]
    others = logs.copy()
    np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
    most = others.max(axis=1)
    odds: Floats = own - most - np.log(np.exp(others - most[:, None]).sum(axis=1))
    return odds
