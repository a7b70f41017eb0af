"""The values that flow between the parts of the package.

Torch is imported only when a tensor is made, so that a data set can be named without torch.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from antidote_learn.core.divergences import Divergence

PerSampleLoss = Callable[["Tensor", "Tensor"], "Tensor"]
"""A function (logits, targets) -> losses, one for each sample."""

FADED = 0.05
"""The likelihood ratio below which a sample counts as forgotten, where weights never vanish."""


class Status(enum.IntEnum):
    """The ways in which a relaxation ends."""

    BUDGET = 0
    """The budget is used up: lam > 0 and D_f = delta."""
    FLOOR = 1
    """The soft penalty kappa keeps D_f below the budget: lam = 0 (also where all losses are equal)."""
    LIMIT = 2
    """kappa = 0 and the budget allows all weight on the smallest loss: ties share the weight evenly."""
    PLAIN = 3
    """delta = 0: the plain mean."""
    EMPTY = 4
    """There was no sample to weigh; the value is 0."""
    INFINITE = 5
    """More losses are infinite than the budget can forget: the value is infinite."""
    NAN = 6
    """A loss is NaN, and so is the value (only while compiling or on an accelerator; elsewhere a NaN is an error)."""
    INACCURATE = 7
    """The divergence D_f misses the budget by more than 1e-6 of the budget."""


@dataclass(eq=False)  # a frozen record would take longer to make than a step of the solver
class Relaxed:
    """The solution of the relaxed problem over a batch; all but ``value`` is detached.

    Attributes:
        value: The optimum, 0-d, differentiable in the losses (once).
        weights: (B,) weights, B times the optimal distribution q: their mean is 1.
        lam: The multiplier of the budget.
        rho: The shift of the losses (None for KL, where it is eliminated).
        achieved: D_f(Q || P) at the optimum.
        delta: The budget; for a penalised problem, the budget that was chosen.
        status: The way in which the solve ended, a `Status` (its number in a tensor while compiling or on an
            accelerator).
    """

    value: Tensor
    weights: Tensor
    status: Status | Tensor
    divergence: Divergence
    raw: dict[str, Any]
    mass: Tensor | None = None
    scope: Relaxed | None = None  # the global solution, if this one holds the rows of one process

    def _scalar(self, value: Any) -> Tensor:
        import torch

        return torch.as_tensor(value, dtype=self.weights.dtype, device=self.weights.device)

    @property
    def lam(self) -> Tensor:
        """The multiplier of the budget; 0 where the budget is slack, +inf for delta = 0."""
        return self._scalar(self.raw["lam"])

    @property
    def rho(self) -> Tensor | None:
        """The multiplier of the mass; None for KL."""
        return None if self.raw["rho"] is None else self._scalar(self.raw["rho"])

    @property
    def achieved(self) -> Tensor:
        """The divergence D_f(Q || P) at the optimum."""
        return self._scalar(self.raw["achieved"])

    @property
    def delta(self) -> Tensor:
        """The budget; for a penalised problem, the budget that was chosen."""
        return self._scalar(self.raw["delta"])

    @property
    def residual(self) -> Tensor:
        """The error |achieved - delta| / delta where the budget binds, else 0; in the precision of the solve."""
        import torch

        raw, binds = self.raw, self.status == int(Status.BUDGET)
        error = abs(raw["achieved"] - raw["delta"]) / raw["delta"] if raw["delta"] != 0 else 0.0
        error = torch.as_tensor(error).nan_to_num(0.0)  # a penalised problem may choose a budget beyond doubles
        return torch.where(torch.as_tensor(binds), error, 0.0)

    @property
    def r_max(self) -> Tensor:
        """The largest fraction of the mass that the budget could forget (eq:delta_rmax)."""
        rate = self.raw["r_max"]
        return self._scalar(rate() if callable(rate) else rate)

    @property
    def threshold(self) -> Tensor:
        """The loss above which samples weigh nothing; +inf where weights never vanish."""
        return self._scalar(self.raw["threshold"])

    def _ratio(self) -> tuple[Tensor, Tensor]:
        """The ratio dQ/dP, and P, of all samples that were relaxed together."""
        import torch

        if self.scope is not None:
            return self.scope._ratio()
        count = max(self.weights.numel(), 1)
        if self.mass is None:
            return self.weights, torch.full_like(self.weights, 1.0 / count)
        mass = self.mass.to(self.weights.dtype)
        p = mass / mass.sum()
        return torch.where(p > 0, self.weights / (count * torch.where(p > 0, p, 1.0)), 0.0), p

    @property
    def total(self) -> Tensor | int:
        """The total of the reference measure: the number of samples where all weigh alike."""
        if self.scope is not None:
            return self.scope.total
        return self.weights.numel() if self.mass is None else self.mass.sum()

    @property
    def ess(self) -> Tensor:
        """The effective number of samples, 1 / sum q^2; a sample of base weight 2 counts as two."""
        ratio, p = self._ratio()
        return self.total / (p * ratio * ratio).sum()

    @property
    def forgotten(self) -> Tensor:
        """The share of P that weighs nothing (less than `FADED` of its mass where weights never vanish)."""
        ratio, p = self._ratio()
        gone = ratio <= 0.0 if math.isfinite(self.divergence.vanishing_score) else ratio < FADED
        return (p * gone).sum()

    def detach(self) -> Relaxed:
        """The solution with a value that carries no gradient."""
        return replace(self, value=self.value.detach())


@dataclass(frozen=True)
class ImageFiles:
    """Images that stay on disk: ``root / names[i]`` is decoded to RGB, resized and centre-cropped to (size, size).

    ``column`` is the column of a table that names the files; empty where no table does.
    """

    root: Path
    names: tuple[str, ...]
    size: int
    column: str = ""

    def __len__(self) -> int:
        return len(self.names)


Inputs = Union["NDArray[np.uint8]", "NDArray[np.float32]", "DataFrame", ImageFiles]
"""(N, C, H, W) uint8 images, (N, D) float32 features, a table of feature columns, or image files."""


@dataclass(frozen=True)
class LabelColumn:
    """The column of a table that holds the labels; a guess where it was taken for its name alone."""

    name: str
    is_guess: bool


@dataclass(frozen=True, eq=False)
class Arrays:
    """A data set, whatever its source.

    Attributes:
        name: The name of the source: a built-in name, or the file's or folder's own.
        inputs: The inputs of the N training samples.
        labels: (N,) int64, the given labels, before noise is added.
        classes: The class names; label k is ``classes[k]``.
        clean_labels: (N,) int64, the truth where it is known, else None.
        test_inputs: The inputs of the M test samples; None where the source has none.
        test_labels: (M,) int64, the labels of the test samples; None where the source has none.
        test_is_clean: Whether the test labels are the truth.
        text: The columns of a table that hold text, where the user named them.
        notes: Messages for the user: files that were left out, and the like.
        positions: (N,) int64, the rows of the samples in the source; None where no row was left out.
        source: The table that the inputs are from, in their order, with the columns that nothing learns from, such as
            row numbers, but without labels; None where the source is no table.
        label: The column of the labels; None where the source is no table.
    """

    name: str
    inputs: Inputs
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    clean_labels: NDArray[np.int64] | None = None
    test_inputs: Inputs | None = None
    test_labels: NDArray[np.int64] | None = None
    test_is_clean: bool = False
    text: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    positions: NDArray[np.int64] | None = None
    source: DataFrame | None = None
    label: LabelColumn | None = None


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Labels with noise, and the truth beside them.

    Attributes:
        labels: (N,) int64, the labels that training sees.
        clean_labels: (N,) int64, the truth.
        transition: (K, K), transition[i, j] = P(noisy = j | clean = i): the matrix of the draw, or the realised one.
        expected: The rate that the generator was asked for, over all samples.
        spec: The noise as it was asked for, "symmetric:0.4".
        seed: The seed of the generator; None where nothing is drawn (human labels).
    """

    labels: NDArray[np.int64]
    clean_labels: NDArray[np.int64]
    _transition: NDArray[np.float64] | Callable[[], NDArray[np.float64]] = field(repr=False)
    expected: float
    spec: str
    seed: int | None

    @cached_property
    def transition(self) -> NDArray[np.float64]:
        """The matrix (K, K) of transitions, made when it is first asked for, as it is large for many classes."""
        return self._transition() if callable(self._transition) else self._transition

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The mask (N,) of the samples whose label is wrong."""
        mask: NDArray[np.bool_] = self.labels != self.clean_labels
        return mask

    @property
    def rate(self) -> float:
        """The realised rate: the share of labels that are wrong."""
        return float(self.mask.mean()) if self.labels.size else 0.0

    @property
    def hash(self) -> str:
        """SHA-256 of the labels as little-endian int64: two runs with the same hash saw the same labels."""
        return hashlib.sha256(self.labels.astype("<i8").tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Batch:
    """One process's part of a batch.

    Attributes:
        inputs: (B, C, H, W) or (B, D) float32, ready for the network.
        labels: (B,) int64, the classes to learn; or (B, K), the probabilities of all classes.
        index: (B,) int64, the samples' positions in the training set.
        total: The number of samples of the whole batch, over all processes.
        further_views: Further inputs of the same samples, where the epoch's plan asks for more than one view.
        further_streams: The batches of the plan's other streams by name; ``batch["unlabelled"]`` gives one.
    """

    inputs: Tensor
    labels: Tensor
    index: Tensor
    total: int
    further_views: tuple[Tensor, ...] = ()
    further_streams: Mapping[str, Batch] = field(default_factory=dict)

    @property
    def views(self) -> tuple[Tensor, ...]:
        """All views of the samples, ``inputs`` first."""
        return (self.inputs, *self.further_views)

    def __getitem__(self, stream: str) -> Batch:
        return self.further_streams[stream]


@dataclass(frozen=True, eq=False)
class Visit:
    """A batch as an objective sees it, beside logits and labels.

    Attributes:
        index: (B,) int64, the samples' positions in the training set.
        weight: (B,) reference measure of the samples; None for equal weights.
        progress: The fraction of the training that is done, before this step.
        scale: The factor of a process's sum of losses in the global mean: processes / samples of the whole batch.
    """

    index: Tensor
    weight: Tensor | None
    progress: float
    scale: float
