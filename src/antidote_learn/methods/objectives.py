"""Methods that train one network on one objective: the parameters of each, and the objective that they make.

An objective is imported when it is made, so that names and parameters need no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from antidote_learn.methods.parameters import Rate, rate_number

if TYPE_CHECKING:
    from antidote_learn.methods.base import Objective


@dataclass(frozen=True)
class Antidote:
    """ANTIDOTE, the paper's Algorithm 1: forgets mislabelled samples, batch by batch."""

    noise_rate: Rate | None = None
    delta: float | None = None
    penalty: float | None = None
    kappa: float = 0.05
    divergence: str = "kl"
    base_loss: str = "ce"

    def objective(self, samples: int) -> Objective:
        """The objective that relaxes each batch."""
        from antidote_learn.nn.antidote import AntidoteLoss

        return AntidoteLoss(
            self.delta,
            noise_rate=rate_number(self.noise_rate),
            penalty=self.penalty,
            kappa=self.kappa,
            divergence=self.divergence,
            base_loss=self.base_loss,
        )


@dataclass(frozen=True)
class AntidoteDataset:
    """ANTIDOTE over the whole data set, within each class, by remembered losses."""

    noise_rate: Rate | None = None
    delta: float | None = None
    kappa: float = 0.05

    def objective(self, samples: int) -> Objective:
        """The objective that relaxes all samples together."""
        from antidote_learn.nn.dataset import DatasetAntidoteLoss

        rate = rate_number(self.noise_rate)
        return DatasetAntidoteLoss(samples, delta=self.delta, noise_rate=rate, kappa=self.kappa)


@dataclass(frozen=True)
class AntidoteLagged:
    """ANTIDOTE as the authors' code computes it: with the multiplier of the batch before."""

    noise_rate: Rate | None = None
    delta: float | None = None
    kappa: float = 0.05
    base_loss: str = "ce"
    start: float = 0.1

    def objective(self, samples: int) -> Objective:
        """The objective G_KL at the multiplier of the batch before."""
        from antidote_learn.nn.variants import LaggedLambda

        budget = _budget(self.delta, self.noise_rate)
        return LaggedLambda(budget, kappa=self.kappa, base_loss=self.base_loss, start=self.start)


@dataclass(frozen=True)
class Budgeted:
    """The parameters of a variant with a given budget."""

    noise_rate: Rate | None = None
    delta: float | None = None
    kappa: float = 0.05
    divergence: str = "kl"
    base_loss: str = "ce"

    @property
    def budget(self) -> float:
        """The budget: the radius of the divergence ball."""
        return _budget(self.delta, self.noise_rate, self.divergence)

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of the variants, beside the budget."""
        return {"kappa": self.kappa, "divergence": self.divergence, "base_loss": self.base_loss}


@dataclass(frozen=True)
class AntidoteGradient(Budgeted):
    """ANTIDOTE with a multiplier that ascends while the network descends, instead of an exact solution."""

    def objective(self, samples: int) -> Objective:
        """The objective G_f at multipliers that are learned."""
        from antidote_learn.nn.variants import GradientLambda

        return GradientLambda(self.budget, **self.keywords)


@dataclass(frozen=True)
class AntidoteLearnedBudget:
    """ANTIDOTE, penalised, with r_max a parameter beside the network's: the appendix taken literally."""

    penalty: float = 1.0
    kappa: float = 0.05
    divergence: str = "kl"
    base_loss: str = "ce"
    start: float = 0.2

    def objective(self, samples: int) -> Objective:
        """The objective that relaxes each batch at a budget that is learned."""
        from antidote_learn.nn.variants import LearnedBudget

        return LearnedBudget(
            self.penalty, kappa=self.kappa, divergence=self.divergence, base_loss=self.base_loss, start=self.start
        )


@dataclass(frozen=True)
class AntidoteMix(Budgeted):
    """The paper's ablation: ANTIDOTE for a share of the objective, the plain mean for the rest."""

    share: float = 0.5

    def objective(self, samples: int) -> Objective:
        """The convex combination of ANTIDOTE and the plain mean."""
        from antidote_learn.nn.variants import Interpolated

        return Interpolated(self.share, self.budget, **self.keywords)


@dataclass(frozen=True)
class AntidoteDro(Budgeted):
    """The opposite sign, distributionally robust optimisation: the largest losses weigh most."""

    def objective(self, samples: int) -> Objective:
        """The largest mean loss in the divergence ball."""
        from antidote_learn.nn.variants import MaxSide

        return MaxSide(self.budget, **self.keywords)


def _budget(delta: float | None, rate: Rate | None, divergence: str = "kl") -> float:
    """The budget ``delta``, or the budget of the noise rate."""
    if delta is not None:
        return delta
    number = rate_number(rate)
    if number is None:
        raise ValueError("give one of noise_rate and delta")
    from antidote_learn.core.budgets import delta_from_rate

    return delta_from_rate(number, divergence)
