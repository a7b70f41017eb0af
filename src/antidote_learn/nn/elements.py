"""From logits and targets to elements: a loss for each, and their reference measure."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from antidote_learn._checks import check_whole, real_number
from antidote_learn._types import PerSampleLoss
from antidote_learn.core.fused import holds_numbers
from antidote_learn.core.losses.grammar import loss_function
from antidote_learn.core.losses.likelihood import cross_entropy

REDUCTIONS = ("mean", "sum", "none")
TINY = torch.finfo(torch.float32).tiny  # least total of a measure to divide by


class Elements(NamedTuple):
    """Losses of all elements, flat, with their measure (None: all alike) and the shape they came in."""

    losses: Tensor
    measure: Tensor | None
    shape: torch.Size

    @classmethod
    def of(cls, losses: Tensor, measure: Tensor | None) -> Elements:
        """Losses of any shape, flattened."""
        shape = losses.shape
        return cls(losses if len(shape) == 1 else losses.reshape(-1), measure, shape)


def per_sample_loss(base_loss: str | PerSampleLoss | nn.Module) -> PerSampleLoss:
    """The base loss as a function (logits, targets) -> one loss for each element."""
    if isinstance(base_loss, str):
        try:
            return loss_function(base_loss)
        except ValueError as error:
            also = "; also accepted: a callable (logits, targets) -> (B,), or a module with reduction='none'"
            raise ValueError(f"base_loss: {error}{also}") from error
    if isinstance(base_loss, nn.Module) and getattr(base_loss, "reduction", "none") != "none":
        base_loss = copy.deepcopy(base_loss)
        setattr(base_loss, "reduction", "none")  # noqa: B010 - not every module has one
    if not callable(base_loss):
        raise ValueError(f"base_loss must be a name, a callable or a module, got {type(base_loss).__name__}")
    return base_loss


def check_logits_and_target(input: Tensor, target: Tensor) -> bool:
    """Checks shapes as torch's cross-entropy wants them; True where the targets are class indices."""
    if not isinstance(input, Tensor) or not isinstance(target, Tensor):
        raise ValueError(f"input and target must be tensors, got {type(input).__name__} and {type(target).__name__}")
    if not input.is_floating_point() or input.dim() < 1:
        raise ValueError(f"input must hold raw logits, floating-point, (N, C) or (N, C, d1, ...); got {input.dtype}")
    if target.is_floating_point():
        if target.shape != input.shape:
            raise ValueError(
                f"target of probabilities must have the input's shape {tuple(input.shape)}, got {tuple(target.shape)}; "
                "class indices must be integers"
            )
        return False
    shape = input.shape
    wanted = shape[:1] if len(shape) == 2 else shape[:1] + shape[2:] if len(shape) > 1 else torch.Size()
    if target.shape != wanted or target.dtype == torch.bool:
        raise ValueError(
            f"target must hold class indices of shape {tuple(wanted)} for an input of shape {tuple(input.shape)}, "
            f"or probabilities of the input's shape; got {target.dtype} of shape {tuple(target.shape)}"
        )
    return True


def class_elements(
    loss: PerSampleLoss,
    input: Tensor,
    target: Tensor,
    sample_weight: Tensor | None,
    *,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
) -> Elements:
    """Any loss with the keywords of torch's cross-entropy.

    With class indices the class weight and the ignored elements are the measure, not the loss; with probabilities the
    weight is inside the loss. Smoothing makes indices probabilities.
    """
    indices = check_logits_and_target(input, target)
    classes = input.shape[_class_axis(input)]
    if weight is not None and weight.shape != (classes,):
        raise ValueError(f"weight must have one entry for each of {classes} classes, got shape {tuple(weight.shape)}")
    if not indices:
        losses = _with_probabilities(loss, input, target, weight, label_smoothing)
        return Elements.of(losses, combine(None, sample_weight, losses.shape, losses.dtype))
    target = target.long()
    measure = None
    if weight is not None or not _none_ignored(target, ignore_index):
        kept = target != ignore_index
        inside = torch.where(kept & (target >= 0) & (target < classes), target, 0)
        measure = kept.to(input.dtype) if weight is None else weight.to(input.dtype)[inside] * kept
    measure = combine(measure, sample_weight, target.shape, input.dtype)
    if measure is not None:  # rows out of the measure may hold any logits
        present = (measure != 0).reshape(target.shape)
        input = torch.where(present.unsqueeze(1) if input.dim() > 1 else present, input, 0.0)
    return Elements.of(_loss_of_indices(loss, input, target, ignore_index, label_smoothing), measure)


def _with_probabilities(
    loss: PerSampleLoss, input: Tensor, target: Tensor, weight: Tensor | None, label_smoothing: float
) -> Tensor:
    if loss is cross_entropy:
        return cross_entropy(input, target, weight=weight, label_smoothing=label_smoothing)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / input.shape[_class_axis(input)]
    if weight is not None:
        target = target * weight.to(target.dtype).view(-1, *(1 for _ in input.shape[2:]))
    return _call_on_batch(loss, input, target)


def _call_on_batch(loss: PerSampleLoss, input: Tensor, target: Tensor) -> Tensor:
    """The loss of a batch, or of a single row of logits (C,), which only cross-entropy knows."""
    return loss(input, target) if input.dim() > 1 else loss(input[None], target[None])[0]


def _class_axis(input: Tensor) -> int:
    return 1 if input.dim() > 1 else 0


def _loss_of_indices(
    loss: PerSampleLoss, input: Tensor, target: Tensor, ignore_index: int, label_smoothing: float
) -> Tensor:
    """The loss of class indices; an index that is no class is an error that says which."""
    classes = input.shape[_class_axis(input)]
    try:
        if loss is cross_entropy:
            return cross_entropy(input, target, ignore_index=ignore_index, label_smoothing=label_smoothing)
        inside = torch.where(target == ignore_index, 0, target)
        if label_smoothing:
            onehot = torch.nn.functional.one_hot(inside, classes).to(input.dtype).movedim(-1, _class_axis(input))
            return _with_probabilities(loss, input, onehot, None, label_smoothing)
        return _call_on_batch(loss, input, inside)
    except (IndexError, RuntimeError) as error:
        bad = target[(target != ignore_index) & ((target < 0) | (target >= classes))]
        if not bad.numel():
            raise
        raise ValueError(
            f"target has {bad.numel()} labels outside 0 ... {classes - 1}, the first is {int(bad[0])}; "
            f"the input has {classes} classes and ignore_index is {ignore_index}"
        ) from error


def _none_ignored(target: Tensor, ignore_index: int) -> bool:
    """Whether no element is ignored; not asked where it cannot be read."""
    if not readable(target):
        return False
    labels = target.numpy()
    if labels.size == 0 or ignore_index < labels.item(labels.argmin()):  # the quickest look at a small array
        return True
    return not np.count_nonzero(labels == ignore_index)


def readable(values: Tensor) -> bool:
    """Whether values may be looked at: that neither reads back from a device nor breaks a graph."""
    return not torch.compiler.is_compiling() and values.device.type == "cpu" and holds_numbers(values)


def nothing(measure: Tensor) -> bool:
    """Whether no element is left; not asked where it cannot be read."""
    return readable(measure) and not bool((measure != 0).any())


def broadcast_weight(sample_weight: Tensor, shape: torch.Size) -> Tensor:
    """A weight for each element, from one for each element or for each of the N samples."""
    if not isinstance(sample_weight, Tensor):
        raise ValueError(f"sample_weight must be a tensor, got {type(sample_weight).__name__}")
    if sample_weight.shape == shape:
        return sample_weight
    if sample_weight.dim() == 1 and len(shape) > 1 and sample_weight.shape[0] == shape[0]:
        return sample_weight.reshape(-1, *(1 for _ in shape[1:])).expand(shape)
    raise ValueError(
        f"sample_weight must have the shape of the losses, {tuple(shape)}, or one weight for each sample; "
        f"got shape {tuple(sample_weight.shape)}"
    )


def reduce_losses(elements: Elements, reduction: str) -> Tensor:
    """The losses as torch would reduce them; nothing to reduce gives 0."""
    losses, measure, shape = elements
    weighted = losses if measure is None else torch.where(measure > 0, losses, 0.0) * measure
    if reduction == "none":
        return weighted.reshape(shape)
    if reduction == "sum":
        return weighted.sum()
    total = float(max(losses.numel(), 1)) if measure is None else measure.sum().clamp(min=TINY)
    return weighted.sum() / total


def check_keywords(reduction: str, ignore_index: int, label_smoothing: float) -> tuple[int, float]:
    """(ignore_index, label_smoothing) as plain numbers; keywords that torch's cross-entropy takes too."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}; got {reduction!r}")
    smoothing = real_number(label_smoothing)
    if smoothing is None or not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"label_smoothing must be in [0, 1], got {label_smoothing!r}")
    return check_whole("ignore_index", ignore_index, -(2**63), 2**63 - 1), smoothing


def outside_autocast(input: Tensor) -> contextlib.AbstractContextManager[Any]:
    """A context in which losses have the precision of their input, or a wider one."""
    kind = input.device.type if isinstance(input, Tensor) else "meta"
    if kind != "meta" and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return contextlib.nullcontext()


def combine(
    measure: Tensor | None, sample_weight: Tensor | None, shape: torch.Size, dtype: torch.dtype
) -> Tensor | None:
    """The product of the two measures, flat, in the type of the losses or a wider one."""
    if sample_weight is not None:
        sample_weight = broadcast_weight(sample_weight, shape)
        if not sample_weight.is_floating_point() or sample_weight.dtype in (torch.float16, torch.bfloat16):
            sample_weight = sample_weight.to(dtype)
        measure = sample_weight if measure is None else measure * sample_weight
    return None if measure is None else measure.reshape(-1)
