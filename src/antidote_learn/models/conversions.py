"""Fitted classifiers of scikit-learn as modules of tensors, which are saved like networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antidote_learn.models.fitted import LinearModel, Trees

NEVER = -1e4  # the logit of a class that was in no row

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def linear_module(model: Any, inputs: int, classes: int) -> LinearModel:
    """The module of a fitted `LogisticRegression` for inputs of D numbers."""
    found, weights, bias = LinearModel(inputs, classes), np.zeros((classes, inputs)), np.full(classes, NEVER)
    coef, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        coef, intercept = np.vstack([-coef, coef]) / 2.0, np.concatenate([-intercept, intercept]) / 2.0
    weights[model.classes_], bias[model.classes_] = coef, intercept
    with torch.no_grad():
        found.head.weight.copy_(torch.from_numpy(weights))
        found.head.bias.copy_(torch.from_numpy(bias))
    return found


def forest_module(model: Any, classes: int) -> Trees:
    """The module of a fitted `RandomForestClassifier`."""
    found = []
    for tree in (member.tree_ for member in model.estimators_):
        shares = tree.value[:, 0, :]
        values = np.zeros((tree.node_count, classes))
        values[:, model.classes_] = shares / shares.sum(axis=1, keepdims=True)
        inner, ways = tree.children_left >= 0, np.stack([tree.children_left, tree.children_right], axis=1)
        found.append(_Tree(tree.feature, tree.threshold, ways, inner, values, tree.max_depth))
    return _fill_trees(found, np.zeros(classes), classes, mean=True)


def boosting_module(model: Any, classes: int) -> Trees:
    """The module of a fitted `HistGradientBoostingClassifier` of numbers without missing values.

    A round is one tree with two classes, else one for each class. The trees of a class without rows add nothing.
    """
    known = list(model.classes_)
    rounds = [[_boosted_tree(tree.nodes) for tree in stage] for stage in model._predictors]
    base = np.ravel(np.asarray(model._baseline_prediction, dtype=np.float64))
    if classes == 2:
        return _fill_trees([tree for stage in rounds for tree in stage], base, classes, mean=False)
    if len(known) == 2:  # the first of the two has the logit 0
        rounds, base = [[_nothing(), *stage] for stage in rounds], np.append(0.0, base)
    start = np.full(classes, NEVER)
    start[known] = base
    trees = [
        stage[known.index(place)] if place in known else _nothing() for stage in rounds for place in range(classes)
    ]
    return _fill_trees(trees, start, classes, mean=False)


@dataclass(frozen=True, eq=False)
class _Tree:
    """The nodes of a tree.

    Attributes:
        features: (M,) the feature that a node looks at.
        thresholds: (M,) rows above it go right.
        ways: (M, 2) the nodes to the left and to the right.
        inner: (M,) whether a node is no leaf.
        values: (M, V) the numbers of leaves.
        depth: The most steps to a leaf.
    """

    features: Integers
    thresholds: Floats
    ways: Integers
    inner: NDArray[np.bool_]
    values: Floats
    depth: int


def _boosted_tree(nodes: NDArray[np.void]) -> _Tree:
    ways = np.stack([nodes["left"], nodes["right"]], axis=1)
    inner, values = nodes["is_leaf"] == 0, nodes["value"][:, None]
    return _Tree(nodes["feature_idx"], nodes["num_threshold"], ways, inner, values, int(nodes["depth"].max()))


def _nothing() -> _Tree:
    """A tree that adds nothing."""
    none = np.zeros(1, dtype=np.int64)
    return _Tree(none, np.zeros(1), none[:, None].repeat(2, axis=1), none.astype(bool), np.zeros((1, 1)), 0)


def _fill_trees(trees: Sequence[_Tree], start: Floats, classes: int, *, mean: bool) -> Trees:
    """Copies trees into one module; a leaf leads back to itself."""
    nodes, outputs = max(len(tree.values) for tree in trees), trees[0].values.shape[1]
    depth = max(tree.depth for tree in trees)
    found = Trees(count=len(trees), nodes=nodes, depth=depth, outputs=outputs, classes=classes, mean=mean)
    for number, tree in enumerate(trees):
        size, inner = len(tree.values), tree.inner
        own = np.arange(size)[:, None]
        arrays = {
            "features": np.where(inner, tree.features, 0),
            "thresholds": np.where(inner, tree.thresholds, np.inf),
            "branches": np.where(inner[:, None], tree.ways, own),
            "values": tree.values,
        }
        for name, array in arrays.items():
            buffer = found.get_buffer(name)
            buffer[number, :size] = torch.from_numpy(np.ascontiguousarray(array)).to(buffer.dtype)
    found.start.copy_(torch.from_numpy(start))
    return found
