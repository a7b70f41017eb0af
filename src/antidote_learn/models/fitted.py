"""Models that are fitted and not trained by gradients: trees, and pools of several models; all of them hold tensors.

A fitted model is saved like a network. Its name has all that its tensors' shapes depend on, so that it is built from
the name, and then filled: "trees:count=100:nodes=61:depth=12:mean=1".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

FLOOR = 1e-4  # added to probabilities before their logarithm, so that one sure model does not overrule all others
MOST_NODES = 10**8  # the most nodes of a model: a number from a file must not fill the memory
MOST_DEPTH = 10**4  # the deepest tree; each level takes time
TREES, LINEAR, NETWORK = "trees", "linear", "network"  # the kinds of members of a pool


class Trees(nn.Module):
    """The sum of decision trees that give logits, or the mean of trees that give probabilities.

    A row goes right at a node where its feature is above the threshold. A leaf leads back to itself.

    Args:
        count: T, the number of trees.
        nodes: M, the most nodes of a tree.
        depth: The most steps from a root to a leaf.
        outputs: The numbers in a leaf: K, or 1 where trees take turns over the classes.
        classes: K, the number of classes.
        mean: Whether leaves hold probabilities, whose mean counts.
    """

    def __init__(self, *, count: int, nodes: int, depth: int, outputs: int, classes: int, mean: bool) -> None:
        super().__init__()
        self.depth, self.classes, self.mean = depth, classes, mean
        self.register_buffer("features", torch.zeros(count, nodes, dtype=torch.int32))
        self.register_buffer("thresholds", torch.zeros(count, nodes, dtype=torch.float64))
        self.register_buffer("branches", torch.zeros(count, nodes, 2, dtype=torch.int32))
        self.register_buffer("values", torch.zeros(count, nodes, outputs, dtype=torch.float64))
        self.register_buffer("start", torch.zeros(1 if classes == 2 and not mean else classes, dtype=torch.float64))

    features: Tensor
    thresholds: Tensor
    branches: Tensor
    values: Tensor
    start: Tensor

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits (B, K) of inputs (B, D)."""
        rows = inputs.flatten(1)
        tree = torch.arange(len(self.features), device=rows.device)
        place = torch.zeros(len(rows), len(tree), dtype=torch.int64, device=rows.device)
        for _ in range(self.depth):
            seen = rows.gather(1, self.features[tree, place].long()).double()
            place = self.branches[tree, place, (seen > self.thresholds[tree, place]).long()].long()
        leaves = self.values[tree, place]
        if self.mean:
            return leaves.mean(dim=1).clamp_min(FLOOR**2).log().to(inputs.dtype)
        raw = leaves.view(len(rows), -1, len(self.start)).sum(dim=1) + self.start
        logits = torch.cat([torch.zeros_like(raw), raw], dim=1) if len(self.start) == 1 else raw
        return logits.to(inputs.dtype)

    @property
    def name(self) -> str:
        """The name from which `build_fitted` builds such trees."""
        count, nodes, outputs = self.values.shape
        shape = {"count": count, "nodes": nodes, "depth": self.depth, "outputs": outputs, "mean": int(self.mean)}
        return ":".join([TREES, *(f"{key}={value}" for key, value in shape.items())])


class LinearModel(nn.Module):
    """A linear model of inputs of any shape.

    Args:
        inputs: D, the numbers of an input.
        classes: K, the number of classes.
    """

    name = LINEAR

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(inputs, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits (B, K)."""
        logits: Tensor = self.head(inputs.flatten(1))
        return logits


class Pool(nn.Module):
    """A weighted geometric mean of models: P ∝ exp(sum of w_j log(P_j + 1e-4)).

    Limits: a single model with weight 1 gives its own probabilities, but for the 1e-4.

    Args:
        members: Models that give logits (B, K).
        weights: (J,) their weights.
    """

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float32))

    weights: Tensor

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits (B, K) of the mean."""
        logs = torch.stack([(member(inputs).softmax(dim=1) + FLOOR).log() for member in self.members])
        pooled: Tensor = torch.tensordot(self.weights.to(logs.dtype), logs, dims=1)
        return pooled

    @property
    def names(self) -> list[str]:
        """The name of each member; a network has the name that stands for the run's own."""
        return [getattr(member, "name", NETWORK) for member in self.members]


def build_fitted(name: str, *, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Builds an empty model from its name, to be filled from a file.

    Raises:
        ValueError: The name is none of a fitted model, or its numbers are absurd.
    """
    kind, *parameters = name.split(":")
    if kind == LINEAR and not parameters:
        return LinearModel(math.prod(shape), classes)
    given = dict(part.partition("=")[::2] for part in parameters)
    wanted = ("count", "nodes", "depth", "outputs", "mean")
    if kind != TREES or tuple(given) != wanted or not all(text.isdecimal() for text in given.values()):
        raise ValueError(f"{name!r} is no fitted model")
    count, nodes, depth, outputs, mean = (int(given[key]) for key in wanted)
    sizes_fit = count * nodes * max(outputs, 1) <= MOST_NODES and depth <= MOST_DEPTH and outputs in (1, classes)
    if not sizes_fit or mean > 1 or (outputs == 1 and mean):
        raise ValueError(f"{name!r} is no model of {classes} classes")
    return Trees(count=count, nodes=nodes, depth=depth, outputs=outputs, classes=classes, mean=bool(mean))
