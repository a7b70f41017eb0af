"""AntidoteLoss: a drop-in for `nn.CrossEntropyLoss` that forgets mislabelled samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from antidote_learn._types import PerSampleLoss, Relaxed, Visit
from antidote_learn.core.divergences import KL, Divergence, divergence_of
from antidote_learn.core.envelope import attach, attach_gradient, envelope, local_part
from antidote_learn.core.fused import (
    batch_gradient,
    cross_entropy_parts,
    is_plain,
    label_positions,
    relax_cross_entropy,
)
from antidote_learn.core.losses.likelihood import cross_entropy
from antidote_learn.core.relaxation import relax, relax_penalized
from antidote_learn.core.solution import Solution
from antidote_learn.core.solve import empty_solution, weigh
from antidote_learn.core.tensors import at_least_float32
from antidote_learn.nn.distributed import ProcessGroup, active_group, gather_losses
from antidote_learn.nn.elements import Elements, combine, nothing, reduce_losses
from antidote_learn.nn.objective import RelaxingLoss, check_base_losses, one_budget


class AntidoteLoss(RelaxingLoss):
    """The smallest expected loss over all reweightings of the batch inside an f-divergence ball (Algorithm 1).

    Replaces ``nn.CrossEntropyLoss()``: ``AntidoteLoss(noise_rate=0.2)`` for data of which about a fifth of the
    labels are wrong. Exactly one of ``delta``, ``noise_rate`` and ``penalty`` is given. In ``eval()`` it is the
    plain mean.

    Args:
        delta: The budget: how far, in divergence, the weights may move from uniform.
        noise_rate: The fraction of wrong labels, in [0, 1); the budget is `delta_from_rate` of it.
        penalty: The price C of the penalised variant, which chooses the budget for each batch.
        kappa: The soft penalty on the divergence: a floor on the temperature.
        divergence: A record or a name: "kl", "chi2", "alpha:1.5", "js", "hellinger".
        base_loss: A loss by name ("ce", "gce:q=0.5", "nce+rce"), a callable (logits, targets) -> (B,), or a module
            with reduction "none".
        weight: (C,) class weights. With class indices they are part of the reference measure: a rare class is not
            forgotten for being weighted up. With probabilities they are inside the loss, as in torch.
        ignore_index: Elements with this label leave the reference measure.
        label_smoothing: As in torch.
        reduction: "mean" is the objective; "sum" is the objective times the total of the measure (the number of
            samples); "none" gives weighted losses, whose sum over that total is the objective without its divergence
            term.
        process_group: "auto" relaxes over the default group's global batch if one is initialised when the loss is
            called; a group; or None for the local batch.

    Shape:
        input (N, C) or (N, C, d1, ...) logits; target (N) or (N, d1, ...) indices or probabilities of the input's
        shape.

    Example:
        >>> import torch
        >>> loss = AntidoteLoss(noise_rate=0.25)
        >>> loss(torch.eye(4) * 5, torch.tensor([0, 1, 2, 0])) < 0.05
        tensor(True)
        >>> loss.last.weights[3] < 0.01
        tensor(True)
    """

    def __init__(
        self,
        delta: float | None = None,
        *,
        noise_rate: float | None = None,
        penalty: float | None = None,
        kappa: float = 0.05,
        divergence: Divergence | str = "kl",
        base_loss: str | PerSampleLoss | nn.Module = "ce",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        process_group: ProcessGroup | str | None = "auto",
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__(
            kappa=kappa,
            base_loss=base_loss,
            weight=weight,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            reduction=reduction,
            process_group=process_group,
        )
        self.divergence = divergence_of(divergence)
        self.delta, self.penalty = one_budget(self.divergence, delta=delta, noise_rate=noise_rate, penalty=penalty)

    def forward(self, input: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """The relaxed objective of a batch; ``sample_weight`` is its reference measure."""
        if self._is_plain() and is_plain(input, target, sample_weight):
            relaxed = self._relax_in_one_node(input, target)
            if relaxed is not None:
                self.remember(relaxed)
                return relaxed.value
        return self._objective(self.elements(input, target, sample_weight))

    def relax(self, losses: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """The relaxed objective of any losses, one for each element: regression, boxes, sequences."""
        losses = at_least_float32(check_base_losses(losses))
        return self._objective(Elements.of(losses, combine(None, sample_weight, losses.shape, losses.dtype)))

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """The objective of a training step; ``visit`` says which samples it has (`methods.base.Objective`)."""
        loss: Tensor = self(logits, labels, sample_weight=visit.weight)
        return loss

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """One relaxation over the losses of all samples (N,)."""
        settings: dict[str, Any] = {"kappa": self.kappa, "divergence": self.divergence, "base_weight": measure}
        if self.penalty is not None:
            return relax_penalized(losses, self.penalty, **settings)
        assert self.delta is not None  # one of the two is given
        return relax(losses, self.delta, **settings)

    def weigh(self, losses: Tensor, measure: Tensor | None) -> Solution:
        """Solves the inner problem for flat losses, with the loss's own budget."""
        if measure is not None and nothing(measure):
            return empty_solution(losses, self.divergence, self.delta)
        return weigh(losses, self.divergence, self.kappa, delta=self.delta, penalty=self.penalty, measure=measure)

    def _is_plain(self) -> bool:
        """Whether the objective is the one of `relax_cross_entropy`."""
        return (
            self.training
            and self.base_loss is cross_entropy
            and self.divergence is KL
            and self.delta is not None
            and self.reduction == "mean"
            and self.label_smoothing == 0.0
            and self.ignore_index < 0
            and self._buffers["weight"] is None  # quicker than nn.Module's search for attributes
        )

    def _relax_in_one_node(self, input: Tensor, target: Tensor) -> Relaxed | None:
        """The objective as one node of the graph, in one process or over the global batch; None where it is no case."""
        group, delta = active_group(self.process_group), self.delta
        if group is None:
            return relax_cross_entropy(input, target, self.kappa, delta)  # type: ignore[arg-type]
        parts = cross_entropy_parts(input, label_positions(input, target))
        if parts is None:
            return None

        def value(weights: Tensor, whole: Tensor, scale: float) -> Tensor:
            return attach_gradient(input, batch_gradient(parts, weights.numpy(), scale), whole)

        return self._global(torch.from_numpy(parts.losses), None, group, value)

    def _objective(self, elements: Elements) -> Tensor:
        if not self.training:
            return reduce_losses(elements, self.reduction)
        group = active_group(self.process_group)
        losses, measure, _ = elements
        if group is None:
            relaxed = attach(losses, self.weigh(losses, measure))
        else:
            relaxed = self._global(losses, measure, group, partial(envelope, losses))
        self.remember(relaxed)
        return self._reduce(relaxed, elements)

    def _global(
        self,
        losses: Tensor,
        measure: Tensor | None,
        group: ProcessGroup,
        attached: Callable[[Tensor, Tensor, float], Tensor],
    ) -> Relaxed:
        """The objective of the global batch: its value on every rank, with the gradient of world_size * sum q_i L_i.

        ``attached`` gives a value the gradient of sum_i scale weights_i L_i, from (weights, value, scale).
        """
        everyone = gather_losses(losses, measure, group)
        whole = attach(everyone.losses, self.weigh(everyone.losses, everyone.mass))
        weights = whole.weights[everyone.local].to(losses.dtype)
        scale = everyone.world_size / max(everyone.losses.numel(), 1)
        value = attached(weights, whole.value.to(losses.dtype), scale)
        return local_part(whole, value, weights, measure)

    def _reduce(self, relaxed: Relaxed, elements: Elements) -> Tensor:
        if self.reduction == "mean":
            return relaxed.value
        total = relaxed.total
        if self.reduction == "sum":
            return relaxed.value * total
        joined = relaxed if relaxed.scope is None else relaxed.scope
        weights = relaxed.weights * (total / max(joined.weights.numel(), 1))
        return (torch.where(weights > 0, elements.losses, 0.0) * weights).reshape(elements.shape)

    def extra_repr(self) -> str:
        """The settings that `print` shows."""
        budget = f"delta={self.delta:g}" if self.delta is not None else f"penalty={self.penalty:g}"
        return f"{budget}, kappa={self.kappa:g}, divergence={self.divergence.name!r}, reduction={self.reduction!r}"
