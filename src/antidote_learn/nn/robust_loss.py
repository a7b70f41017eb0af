"""RobustLoss: any of the field's robust losses as a module with the keywords of `nn.CrossEntropyLoss`."""

from __future__ import annotations

from torch import Tensor, nn

from antidote_learn.core.losses.grammar import build_closed_form, loss_function, parse_loss
from antidote_learn.core.tensors import at_least_float32
from antidote_learn.nn.elements import (
    check_keywords,
    class_elements,
    outside_autocast,
    reduce_losses,
)


class RobustLoss(nn.Module):
    """A loss by name: ``RobustLoss("gce:q=0.7")``, or a weighted sum, ``RobustLoss("nce+0.5*mae")``.

    Args:
        name: See `antidote list losses`; parameters follow a colon, terms of a sum a plus sign.
        weight: (C,) class weights, as in torch.
        ignore_index: Elements with this label do not count.
        label_smoothing: As in torch: the loss of the smoothed label.
        reduction: "mean", "sum" or "none".

    Shape:
        input (N, C) or (N, C, d1, ...) logits; target (N) or (N, d1, ...) indices or probabilities of the input's
        shape. Probabilities mean the same for every loss: the sum over k of target_k times the loss of class k.

    Example:
        >>> import torch
        >>> RobustLoss("mae")(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
        tensor(1.)
    """

    weight: Tensor | None

    def __init__(
        self,
        name: str,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__()
        ignore_index, label_smoothing = check_keywords(reduction, ignore_index, label_smoothing)
        self.name, self.function = "+".join(map(str, parse_loss(name))), loss_function(name)
        self.closed_form = build_closed_form(name)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, label_smoothing, reduction

    def forward(self, input: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of a batch; a sample of ``sample_weight`` 2 counts twice."""
        if sample_weight is None and self._is_plain():
            scale = 1.0 / max(len(target), 1) if self.reduction == "mean" else 1.0
            node = self.closed_form.attach(input, target, scale, lambda logits: self._by_graph(logits, target, None))
            if node is not None:
                return node
        return self._by_graph(input, target, sample_weight)

    def _is_plain(self) -> bool:
        """Whether the loss is the mean or sum of its closed form."""
        return (
            self.label_smoothing == 0.0
            and self.ignore_index < 0
            and self.reduction != "none"
            and self._buffers["weight"] is None
        )

    def _by_graph(self, input: Tensor, target: Tensor, sample_weight: Tensor | None) -> Tensor:
        with outside_autocast(input):
            elements = class_elements(
                self.function,
                at_least_float32(input),
                target,
                sample_weight,
                weight=self.weight,
                ignore_index=self.ignore_index,
                label_smoothing=self.label_smoothing,
            )
            return reduce_losses(elements, self.reduction)

    def extra_repr(self) -> str:
        """The settings that `print` shows."""
        return f"{self.name!r}, reduction={self.reduction!r}"
