"""DatasetAntidoteLoss: the relaxation over the whole data set, through a memory of every sample's losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from antidote_learn._checks import check_number, check_whole
from antidote_learn._types import PerSampleLoss, Relaxed, Visit
from antidote_learn.core.divergences import KL
from antidote_learn.core.envelope import attach, envelope, local_part
from antidote_learn.core.groups import ranks
from antidote_learn.core.relaxation import relax
from antidote_learn.core.reuse import KeptSolution, keep_solution
from antidote_learn.core.solve import empty_solution, weigh
from antidote_learn.nn.distributed import ProcessGroup, active_group, gather_rows, widest
from antidote_learn.nn.elements import TINY, Elements, nothing, readable, reduce_losses
from antidote_learn.nn.objective import RelaxingLoss, one_budget

KEPT = 0.5  # share that a sample's average keeps when its next loss comes
MOST_SAMPLES = 2**40  # more is a mistake, and would ask for terabytes
RAMP = 0.1  # share of the training over which the budget grows to its full size
EXACT = 50_000  # samples up to which every batch solves anew, at O(N) a step
SOLVES = 32  # solves of a larger data set in an epoch: t moves by some 1 % in between


class DatasetAntidoteLoss(RelaxingLoss):
    """ANTIDOTE with the data set in the place of the batch: which samples are forgotten is decided among all of them.

    It remembers a running average of every sample's losses and weighs a batch by the relaxation (KL) over all samples
    seen so far: loss = mean of w_i L_i over the batch, w_i not renormalised in it. By default every given class keeps
    its mass, so that none is forgotten for another. There is no second forward pass, and a batch may be any part of the
    data: micro-batches are called one after the other. In ``eval()`` it is the plain mean and remembers nothing.

    Up to 50 000 samples every batch solves the relaxation anew. With more of them, on a CPU, it is solved whenever a
    32nd of the samples seen so far has passed; in between the last temperature and the normaliser of each class weigh
    the new losses, and ``last`` tells of the batch at that temperature.

    Args:
        num_samples: How many samples the data set has.
        delta: The budget: how far, in divergence, the weights may move from uniform.
        noise_rate: The fraction of wrong labels, in [0, 1); the budget is `delta_from_rate` of it.
        kappa: The soft penalty on the divergence: a floor on the temperature.
        class_fair: Whether every class keeps its mass; of a target of probabilities the class is the largest one's.
        base_loss: As for `AntidoteLoss`.
        weight: (C,) class weights, as for `AntidoteLoss`.
        ignore_index: Elements with this label are neither weighed nor remembered.
        label_smoothing: As in torch.
        reduction: "mean"; "sum", the mean times the total of the batch's measure; or "none".
        process_group: "auto" takes the default group's global batch if one is initialised when the loss is called, a
            group that group's; every process then has the same memory. None for the local batch.

    Attributes:
        scores: (num_samples,) the average loss of every sample: sort by it to see which labels are doubtful.
        visits: (num_samples,) how often it was seen.
        measure: (num_samples,) its weight when it was last seen; 0 before.
        labels: (num_samples,) its class then.

    Shape:
        input (N, C) or (N, C, d1, ...) logits; target as for `AntidoteLoss`; index of the losses' shape, (N) or
        (N, d1, ...).

    Example:
        >>> import torch
        >>> loss = DatasetAntidoteLoss(4, noise_rate=0.25)
        >>> logits, labels = torch.eye(4) * 5, torch.tensor([0, 1, 1, 1])
        >>> for part in torch.arange(4).split(2):
        ...     value = loss(logits[part], labels[part], index=part)
        >>> loss.last.weights[1] < 0.5
        tensor(True)
    """

    scores: Tensor
    visits: Tensor
    measure: Tensor
    labels: Tensor

    def __init__(
        self,
        num_samples: int,
        *,
        delta: float | None = None,
        noise_rate: float | None = None,
        kappa: float = 0.05,
        class_fair: bool = True,
        base_loss: str | PerSampleLoss | nn.Module = "ce",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        process_group: ProcessGroup | str | None = "auto",
    ) -> None:
        """Checks and stores the arguments; nothing is remembered yet."""
        super().__init__(
            kappa=kappa,
            base_loss=base_loss,
            weight=weight,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            reduction=reduction,
            process_group=process_group,
        )
        num_samples = check_whole("num_samples", num_samples, 1, MOST_SAMPLES)
        budget, _ = one_budget(KL, delta=delta, noise_rate=noise_rate)
        assert budget is not None  # there is no penalty to choose
        self.delta, self.class_fair, self.num_samples = budget, class_fair, num_samples
        self.register_buffer("scores", torch.zeros(num_samples))
        self.register_buffer("visits", torch.zeros(num_samples, dtype=torch.int32))
        self.register_buffer("measure", torch.zeros(num_samples))
        self.register_buffer("labels", torch.zeros(num_samples, dtype=torch.int64))
        self._progress, self._temperature, self._left = 1.0, 0.0, 0
        self._kept: KeptSolution | None = None

    def set_progress(self, progress: float) -> None:
        """Says what fraction of the training is done: over the first tenth the budget grows to its full size.

        Until it is first told there is no such ramp. It keeps a new network, whose losses tell classes apart rather
        than right from wrong labels, from being believed too early; tell it before every step.
        """
        progress = check_number("progress", progress, 0.0)
        if progress > 1.0:
            raise ValueError(f"progress must be in [0, 1], the fraction of the training that is done; got {progress!r}")
        self._progress = progress

    def forward(
        self, input: Tensor, target: Tensor, *, index: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The objective of a batch; ``index`` says which samples it holds, ``sample_weight`` is their measure."""
        elements = self.elements(input, target, sample_weight)
        if not self.training:
            return reduce_losses(elements, self.reduction)
        index = _check_index(index, elements.shape, self.num_samples)
        labels = _target_classes(input, target, elements.shape) if self.class_fair else torch.zeros_like(index)
        return self._objective(elements, index, labels)

    def batch_loss(self, logits: Tensor, labels: Tensor, visit: Visit) -> Tensor:
        """The objective of a training step; ``visit`` says which samples it has (`methods.base.Objective`)."""
        self.set_progress(visit.progress)
        loss: Tensor = self(logits, labels, index=visit.index, sample_weight=visit.weight)
        return loss

    def relax_all(self, losses: Tensor, labels: Tensor, measure: Tensor | None) -> Relaxed:
        """One relaxation over the losses of all samples (N,), without what is remembered."""
        groups = labels if self.class_fair else None
        return relax(losses, self.delta, kappa=self.kappa, base_weight=measure, groups=groups)

    def _objective(self, elements: Elements, index: Tensor, labels: Tensor) -> Tensor:
        losses, measure, shape = elements
        measure = torch.ones_like(losses) if measure is None else measure
        columns = [widest(column.detach().reshape(-1).to(losses.device)) for column in (index, losses, measure, labels)]
        rows, local, processes = torch.stack(columns, dim=1), slice(None), 1
        group = active_group(self.process_group)
        if group is not None:
            rows, local, processes = gather_rows(rows, group)
        rows = rows.to(self.scores.device)
        total = rows[:, 2].sum().clamp(min=TINY)
        if nothing(rows[:, 2]):
            relaxed = attach(losses, empty_solution(losses, KL, self.delta))
        else:
            whole, ratio = self._weigh_batch(rows)
            share = ratio * rows[:, 2]
            mean = torch.where(share > 0, rows[:, 1] * share, 0.0).sum() / total
            value = envelope(losses, share[local].to(losses), mean.to(losses), (processes / total).to(losses))
            relaxed = local_part(whole, value, ratio[local].to(losses), None)
        self.remember(relaxed)
        if self.reduction == "none":
            weights = relaxed.weights * measure
            return (torch.where(weights > 0, losses, 0.0) * weights).reshape(shape)
        return relaxed.value * total.to(losses) if self.reduction == "sum" else relaxed.value

    @torch.no_grad()
    def _weigh_batch(self, rows: Tensor) -> tuple[Relaxed, Tensor]:
        """(the relaxation over all samples seen, dQ/dP of each row), solved anew or by the last solution."""
        index = rows[:, 0].long()
        self._take(index, *rows[:, 1:].unbind(1))
        if self._kept is not None and self._left >= len(rows) and readable(self.scores):
            self._left -= len(rows)
            ratio = self._kept.ratio(self.scores[index], self.labels[index])
            whole = self._kept.as_relaxed(ratio, rows[:, 2])
        else:
            measure = self.measure.clone()  # a copy, since the next batch changes the memory
            whole = self._solve_all(measure)
            ratio = whole.weights[index] * (measure.sum() / self.num_samples / measure[index])
        unknown = (rows[:, 2] > 0).to(rows)  # 1 for a sample without a finite loss, on a device: its value shows it
        return whole, torch.where(self.measure[index] > 0, ratio.to(rows), unknown)

    def _solve_all(self, measure: Tensor) -> Relaxed:
        """The relaxation over all samples seen; the solution of many samples is kept for the next batches."""
        solved = weigh(
            self.scores,
            KL,
            self.kappa,
            delta=self.delta * min(1.0, self._progress / RAMP),
            measure=measure,
            groups=self.labels if self.class_fair else None,
            warm=self._temperature or None,
        )
        whole = attach(self.scores, solved)
        lam = whole.raw["lam"]
        self._temperature = lam + self.kappa if isinstance(lam, float) and lam < float("inf") else 0.0
        self._kept = None
        if self.num_samples > EXACT and readable(self.scores):
            self._kept = keep_solution(whole, self.scores, measure, self.labels, self.kappa)
            self._left = int((measure > 0).sum()) // SOLVES
        return whole

    def _take(self, index: Tensor, losses: Tensor, mass: Tensor, labels: Tensor) -> None:
        """Takes losses into the averages; a sample that occurs several times counts once, with their mean.

        The average is m_c / (1 - beta^c), m_c = beta m_{c-1} + (1 - beta) L, after c losses, written as a step
        towards the new loss.
        """
        there = mass > 0
        if readable(losses) and not bool(torch.isfinite(losses[there]).all()):
            bad = int((~torch.isfinite(losses[there])).sum())
            raise ValueError(
                f"losses must be finite to be remembered, got {bad} that are not among {int(there.sum())}; look at the "
                "inputs and the learning rate, or give such rows sample_weight 0"
            )
        there = there & torch.isfinite(losses)
        columns = torch.stack([torch.ones_like(losses), losses, mass, labels], dim=1)
        columns = torch.where(there.unsqueeze(1), columns, 0.0)
        rank = ranks(index)
        times, *sums = torch.zeros_like(columns).index_add(0, rank, columns)[rank].unbind(1)
        seen = times > 0
        loss, mass, label = (column / times.clamp(min=1.0) for column in sums)
        visits, score = self.visits[index] + seen, self.scores[index]
        step = (1.0 - KEPT) / (1.0 - KEPT ** visits.clamp(min=1).to(score.dtype))
        self.scores[index] = torch.where(seen, score + step * (loss.to(score.dtype) - score), score)
        self.visits[index] = visits.to(self.visits.dtype)
        self.measure[index] = torch.where(seen, mass.to(self.measure.dtype), self.measure[index])
        self.labels[index] = torch.where(seen, label.round().long(), self.labels[index])

    def get_extra_state(self) -> Tensor:
        """The progress of the training, the last temperature, and the solution that is used again."""
        kept = [] if self._kept is None else [self._left, *self._kept.numbers()]
        return torch.tensor([self._progress, self._temperature, *kept], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Puts `get_extra_state` back."""
        self._progress, self._temperature, *kept = state.tolist()
        self._left = int(kept[0]) if kept else 0
        self._kept = KeptSolution.from_numbers(kept[1:]) if kept else None

    def extra_repr(self) -> str:
        """The settings that `print` shows."""
        fair = "" if self.class_fair else ", class_fair=False"
        return f"{self.num_samples}, delta={self.delta:g}, kappa={self.kappa:g}{fair}, reduction={self.reduction!r}"


def _check_index(index: Tensor | None, shape: torch.Size, num_samples: int) -> Tensor:
    """The index of each loss's sample, if it is one."""
    wanted = f"of shape {tuple(shape)}, the position of each sample in the data set, 0 ... {num_samples - 1}"
    if not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool or index.shape != shape:
        got = f"{index.dtype} of shape {tuple(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise ValueError(
            f"index must hold whole numbers {wanted}; got {got}: have the data set return it with a sample"
        )
    if index.numel() and readable(index) and not (int(index.min()) >= 0 and int(index.max()) < num_samples):
        raise ValueError(f"index must hold whole numbers {wanted}; got {int(index.min())} ... {int(index.max())}")
    return index


def _target_classes(input: Tensor, target: Tensor, shape: torch.Size) -> Tensor:
    """The class that each element was given; of probabilities the largest one's."""
    if target.is_floating_point() and target.shape == input.shape != shape:
        return target.argmax(dim=1 if input.dim() > 1 else 0)
    if target.is_floating_point() or target.shape != shape:
        raise ValueError(
            f"class_fair needs targets that are classes or their probabilities, got {target.dtype} of shape "
            f"{tuple(target.shape)} for losses of shape {tuple(shape)}: set class_fair=False"
        )
    return target
