"""The base of the relaxing objectives: keywords of the base loss, its elements, the budget, the last solution."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from antidote_learn._checks import check_number, check_penalty
from antidote_learn._types import PerSampleLoss, Relaxed
from antidote_learn.core.budgets import delta_from_rate, require_forgetting
from antidote_learn.core.divergences import Divergence
from antidote_learn.core.tensors import at_least_float32
from antidote_learn.nn.distributed import ProcessGroup
from antidote_learn.nn.elements import (
    Elements,
    check_keywords,
    class_elements,
    combine,
    outside_autocast,
    per_sample_loss,
)

ADVICE = {
    "noise_rate": "noise_rate if you know roughly what fraction of the labels is wrong (0.2 for 20 %)",
    "delta": "delta for a budget of your own",
    "penalty": "penalty=1.0 to let every batch choose",
}


class RelaxingLoss(nn.Module):
    """A module over the base loss of every element, with the keywords of torch's cross-entropy."""

    weight: Tensor | None

    def __init__(
        self,
        *,
        kappa: float,
        base_loss: str | PerSampleLoss | nn.Module,
        weight: Tensor | None,
        ignore_index: int,
        label_smoothing: float,
        reduction: str,
        process_group: ProcessGroup | str | None,
    ) -> None:
        """Checks and stores the arguments."""
        super().__init__()
        self.kappa = check_number("kappa", kappa, 0.0)
        ignore_index, label_smoothing = check_keywords(reduction, ignore_index, label_smoothing)
        self.base_loss, self.is_named = per_sample_loss(base_loss), isinstance(base_loss, str)
        if not self.is_named and (weight is not None or label_smoothing or ignore_index != -100):
            raise ValueError(
                "weight, ignore_index and label_smoothing belong to a base_loss that is named, as 'ce'; give them to "
                "the callable base loss itself, and leave elements out with sample_weight 0"
            )
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, label_smoothing, reduction
        self.process_group = process_group
        self._last: Relaxed | None = None

    @property
    def last(self) -> Relaxed | None:
        """The solution of the last call in training mode: weights of the flattened elements and the rest, detached."""
        return None if self._last is None else self._last.detach()

    def figures(self) -> dict[str, Any]:
        """The temperature t = lam + kappa and the share that was forgotten, of all that was relaxed together."""
        solved = self.last
        assert solved is not None  # the loss was just called
        whole = solved.scope or solved
        return {"temperature": whole.raw["lam"] + self.kappa, "forgotten": whole.forgotten}

    def elements(self, input: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Elements:
        """The base loss of every element and the reference measure, outside autocast, in at least float32."""
        with outside_autocast(input):
            input = at_least_float32(input)
            if self.is_named:
                return class_elements(
                    self.base_loss,
                    input,
                    target,
                    sample_weight,
                    weight=self.weight,
                    ignore_index=self.ignore_index,
                    label_smoothing=self.label_smoothing,
                )
            losses = at_least_float32(check_base_losses(self.base_loss(input, target)))
            return Elements.of(losses, combine(None, sample_weight, losses.shape, losses.dtype))

    def remember(self, relaxed: Relaxed) -> None:
        """Keeps a solution for `last`."""
        object.__setattr__(
            self, "_last", relaxed
        )  # a plain attribute: nn.Module's own setter costs as much as a solve step

    def __getstate__(self) -> dict[str, Any]:
        """A copy or a pickle starts without a last solution."""
        return {**self.__dict__, "_last": None}


def one_budget(f: Divergence, **given: float | None) -> tuple[float | None, float | None]:
    """(delta, penalty), one of them None, from delta, noise_rate and maybe penalty, of which one is given."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        got = " and ".join(f"{name}={given[name]!r}" for name in names) or "none of them"
        *first, last = given
        advice = ", ".join(text for name, text in ADVICE.items() if name in given)
        raise ValueError(f"give exactly one of {', '.join(first)} and {last}, got {got}: {advice}")
    (name,) = names
    value = given[name]
    assert value is not None  # its name is in the list of those given
    if name == "noise_rate":
        rate = check_number("noise_rate", value, 0.0)
        if rate >= 1.0:
            raise ValueError(f"noise_rate must be in [0, 1), got {value!r}; 20 % is 0.2")
        return delta_from_rate(rate, f), None
    if name == "penalty":
        require_forgetting(f)
        return None, check_penalty(value)
    return check_number("delta", value, 0.0), None


def check_base_losses(losses: Any) -> Tensor:
    """The result of a base loss, if it is one loss for each sample."""
    if not isinstance(losses, Tensor) or losses.dim() == 0 or not losses.is_floating_point():
        kind = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(
            f"base_loss must return one floating-point loss for each sample, got {kind}; use reduction='none'"
        )
    return losses
