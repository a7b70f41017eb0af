"""Small tables with labels of which some are wrong."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from antidote_learn import inject

LOADERS = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}


class Noisy(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def noisy(name: str, noise: str, seed: int = 0) -> Noisy:
    """Standardised columns, three tenths of the rows held out, noise in the other labels."""
    X, y = LOADERS[name](return_X_y=True)
    X, X_test, truth, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    scaler = StandardScaler().fit(X)
    labels = truth if noise == "none" else inject(truth, noise, seed=seed).labels
    return Noisy(scaler.transform(X), labels, truth, scaler.transform(X_test), y_test)
