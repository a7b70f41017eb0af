"""Methods that correct for a transition matrix T, which is given, or estimated after a warm-up by cross-entropy.

The files that train import torch, and are imported when a method is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antidote_learn.methods.base import Method, Objective
from antidote_learn.methods.noise_model import NoiseModel, Source

WARM_UP = 0.2  # the share of epochs before T is estimated: between the 9 % and 50 % of published code


@dataclass(frozen=True)
class Forward:
    """Forward correction: the prediction passes through T before it meets the label.

    The network learns the true class, and T explains how the given label came about. Any objective can follow:
    `forward:objective=antidote` also forgets what T does not explain.

    Needs: T, how classes are mistaken for one another, known or estimated.
    When: some classes are mistaken for some others, in the same way for every sample.
    Reference: Patrini et al., Making Deep Neural Networks Robust to Label Noise, CVPR 2017.

    Args:
        transition: T: an estimator (anchor, anchor-max, dual-t, confident, audit), a file, or "injected".
        objective: The objective of the corrected predictions: a loss, or a method with an objective.
        warmup: The share of epochs before T is estimated.
    """

    transition: Source = "dual-t"
    objective: str | Objective = "ce"
    warmup: float = WARM_UP

    def method(self) -> Method:
        """The training."""
        from antidote_learn.methods.corrected_network import CorrectedNetwork, correct_forward

        noise, objective = NoiseModel(self.transition), built_objective(self.objective)
        return CorrectedNetwork("forward", noise, objective, correct_forward, warmup=self.warmup)


@dataclass(frozen=True)
class Backward:
    """Backward correction: the inverse of T mixes the losses of all classes.

    The corrected loss is right on average. Single losses can be negative, and a T that is nearly singular makes them
    large.

    Needs: T, which must have an inverse, known or estimated.
    When: you want an unbiased estimate of the clean loss; Forward correction mostly trains better.
    Reference: Patrini et al., Making Deep Neural Networks Robust to Label Noise, CVPR 2017.

    Args:
        transition: T: an estimator (anchor, anchor-max, dual-t, confident, audit), a file, or "injected".
        warmup: The share of epochs before T is estimated.
    """

    transition: Source = "dual-t"
    warmup: float = WARM_UP

    def method(self) -> Method:
        """The training."""
        from antidote_learn.methods.corrected_network import CorrectedNetwork, correct_backward
        from antidote_learn.nn.mean import MeanLoss

        noise = NoiseModel(self.transition)
        return CorrectedNetwork(
            "backward", noise, MeanLoss("ce"), correct_backward, warmup=self.warmup, invertible=True
        )


@dataclass(frozen=True)
class Rw:
    """Importance reweighting: a sample weighs as much as its label is likely to be right.

    The weight is the ratio of the true to the given label's probability, p_y / (p T)_y. It is the measure of the
    objective, so that `rw:objective=antidote` forgets by losses, too.

    Needs: T, how classes are mistaken for one another, known or estimated.
    When: as Forward, if the network must fit what it predicts, not T times that.
    Reference: Liu and Tao, Classification with Noisy Labels by Importance Reweighting, TPAMI 2016.

    Args:
        transition: T: an estimator (anchor, anchor-max, dual-t, confident, audit), a file, or "injected".
        objective: The objective of the weighted samples: a loss, or a method with an objective.
        warmup: The share of epochs before T is estimated.
    """

    transition: Source = "dual-t"
    objective: str | Objective = "ce"
    warmup: float = WARM_UP

    def method(self) -> Method:
        """The training."""
        from antidote_learn.methods.corrected_network import CorrectedNetwork, reweight

        noise, objective = NoiseModel(self.transition), built_objective(self.objective)
        if not getattr(objective, "takes_weights", True):
            raise ValueError(
                "rw needs an objective that takes weights of samples: a loss, antidote or antidote-dataset"
            )
        return CorrectedNetwork("rw", noise, objective, reweight, warmup=self.warmup)


@dataclass(frozen=True)
class Rent:
    """RENT: samples of a batch are drawn anew, the more often the likelier their labels are right.

    The weights of `rw` are the probabilities of being drawn. `alpha` leads from drawing (0) through weights of a
    Dirichlet distribution to the weights of `rw` themselves (large), scaled to mean 1.

    Needs: T, how classes are mistaken for one another, known or estimated.
    When: as `rw`; drawing adds noise, which keeps the network from fitting wrong labels.
    Reference: Bae et al., Dirichlet-based Per-Sample Weighting by Transition Matrix, ICLR 2024.

    Args:
        transition: T: an estimator (anchor, anchor-max, dual-t, confident, audit), a file, or "injected".
        alpha: The concentration of the Dirichlet distribution; 0 draws whole samples.
        warmup: The share of epochs before T is estimated.
    """

    transition: Source = "dual-t"
    alpha: float = 0.0
    warmup: float = WARM_UP

    def __post_init__(self) -> None:
        """Refuses a negative concentration."""
        if not 0.0 <= self.alpha < float("inf"):
            raise ValueError(f"rent needs alpha >= 0, got {self.alpha}")

    def method(self) -> Method:
        """The training."""
        from antidote_learn.methods.corrected_network import CorrectedNetwork, resample_by
        from antidote_learn.nn.mean import MeanLoss

        noise, correct = NoiseModel(self.transition), resample_by(self.alpha)
        return CorrectedNetwork("rent", noise, MeanLoss("ce"), correct, warmup=self.warmup)


def built_objective(objective: Any) -> Objective:
    """The objective that the registry built from its name."""
    if isinstance(objective, str):
        raise ValueError(f"objective must be built from its name {objective!r} first, as the registry does")
    built: Objective = objective
    return built
