"""Probabilities of the true classes from probabilities of the given labels, by a transition matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEPS = 30  # steps of the search, after which rows move by less than judges err
LEAST = 1e-6  # the least probability of a class

Floats = NDArray[np.float64]


def clean_posteriors(given: Floats, transition: Floats) -> Floats:
    """The probabilities C (B, K) of the true classes with C T as near to those of the given labels as they can be.

    A classifier that was trained on noisy labels predicts G = C T. The inverse of T would give negative numbers where G
    is not quite right. These are the steps of Richardson and Lucy, which minimise KL(G || C T) over probabilities:
    C <- C * (G / (C T)) T'.

    Limits: with the identity C is G.

    Args:
        given: (B, K) G, rows with the sum 1.
        transition: (K, K) T[k, c] = P(given = c | true = k).

    Example:
        >>> clean_posteriors(np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([[0.8, 0.2], [0.2, 0.8]])).round(1)
        array([[1. , 0. ],
               [0.5, 0.5]])
    """
    found = given.copy()
    for _ in range(STEPS):
        found *= (given / np.maximum(found @ transition, LEAST)) @ transition.T
    found = np.maximum(found, LEAST)
    clean: Floats = found / found.sum(axis=1, keepdims=True)
    return clean
