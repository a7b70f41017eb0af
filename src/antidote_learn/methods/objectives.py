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
    """ANTIDOTE, the paper's Algorithm 1: forgets mislabelled samples, batch by batch.

    The loss of a batch is its smallest mean loss over all reweightings inside a ball of given f-divergence. Samples
    whose labels contradict the rest lose their weight. The radius of the ball bounds how many may; the weights are
    solved for exactly in every step.

    Needs: the noise rate (estimated if it is not given), or a budget or a penalty in its place.
    When: some labels are wrong, and for every kind of sample the right label is still the most frequent one.
    Reference: Birrell and Ebrahimi, Learning to Forget with Information Divergence Reweighted Objectives for Noisy
        Labels, 2025.

    Args:
        noise_rate: The share of wrong labels, a number in [0, 1), "auto" or "injected"; the budget follows from it.
        delta: The budget itself: the radius of the ball, in place of the noise rate.
        penalty: The price C of a budget that every batch chooses for itself, in place of the noise rate.
        kappa: The price of the divergence: weights fall no faster than exp(-loss / kappa), if the divergence is KL.
        divergence: The f-divergence: kl, chi2, js, hellinger, or alpha:A of an order A > 1.
        base_loss: The loss of a single sample: any loss, or a sum of losses.
    """

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
    """ANTIDOTE over the whole data set, within each class, by remembered losses.

    Which samples are forgotten is decided among all of them, by the running mean of each one's losses, and not in each
    batch anew. Every given class keeps its share of the weight. The budget grows over the first tenth of the training.

    Needs: the noise rate (estimated if it is not given), or a budget.
    When: wrong labels prefer some class, or the data are few enough to be memorised; not if the network learns so
        slowly that it still guesses after the first tenth of the training.
    Reference: Birrell and Ebrahimi, Learning to Forget with Information Divergence Reweighted Objectives for Noisy
        Labels, 2025; the form over the data set is this package's own.

    Args:
        noise_rate: The share of wrong labels, a number in [0, 1), "auto" or "injected"; the budget follows from it.
        delta: The budget itself: the radius of the ball of KL divergence, in place of the noise rate.
        kappa: The price of the divergence: weights fall no faster than exp(-loss / kappa).
    """

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
    """ANTIDOTE as the authors' code computes it: with the multiplier of the batch before.

    The multiplier of the budget sets how fast weights fall with the loss. Here it is solved for after the step, and
    serves the next batch, which it does not fit exactly.

    Needs: the noise rate (estimated if it is not given), or a budget.
    When: you reproduce numbers of the authors' released code; otherwise take `antidote`, which is exact.
    Reference: Birrell and Ebrahimi, Learning to Forget with Information Divergence Reweighted Objectives for Noisy
        Labels, 2025, as its released code computes it.

    Args:
        noise_rate: The share of wrong labels, a number in [0, 1), "auto" or "injected"; the budget follows from it.
        delta: The budget itself: the radius of the ball of KL divergence, in place of the noise rate.
        kappa: The price of the divergence: weights fall no faster than exp(-loss / kappa).
        base_loss: The loss of a single sample: any loss, or a sum of losses.
        start: The multiplier of the first batch; the released code has 0.1 for CIFAR and 1 for WebVision.
    """

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
    """The parameters of a variant with a given budget.

    Args:
        noise_rate: The share of wrong labels, a number in [0, 1), "auto" or "injected"; the budget follows from it.
        delta: The budget itself: the radius of the ball, in place of the noise rate.
        kappa: The price of the divergence: weights fall no faster than exp(-loss / kappa), if the divergence is KL.
        divergence: The f-divergence: kl, chi2, js, hellinger, or alpha:A of an order A > 1.
        base_loss: The loss of a single sample: any loss, or a sum of losses.
    """

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
    """ANTIDOTE with a multiplier that ascends while the network descends, instead of an exact solution.

    The multiplier of the budget is a parameter beside those of the network, and so is the shift of the losses where the
    divergence has one. Both follow the gradient, at a learning rate of 0.001.

    Needs: the noise rate (estimated if it is not given), or a budget.
    When: you reproduce the authors' code without bisection, or ask what the exact solution is worth.
    Reference: Birrell and Ebrahimi, Learning to Forget with Information Divergence Reweighted Objectives for Noisy
        Labels, 2025, as its released code computes it.
    """

    def objective(self, samples: int) -> Objective:
        """The objective G_f at multipliers that are learned."""
        from antidote_learn.nn.variants import GradientLambda

        return GradientLambda(self.budget, **self.keywords)


@dataclass(frozen=True)
class AntidoteLearnedBudget:
    """ANTIDOTE, penalised, with r_max a parameter beside the network's: the appendix taken literally.

    r_max is the share of samples that the ball lets training forget. It is learned with the network and pays the price
    C r_max^2 / (1 - r_max). `antidote:penalty=C` chooses it for every batch instead, exactly.

    Needs: nothing but labels, and a price.
    When: you compare one budget for the whole training with one for each batch.
    Reference: Birrell and Ebrahimi, Learning to Forget with Information Divergence Reweighted Objectives for Noisy
        Labels, 2025, appendix on the penalised objective.

    Args:
        penalty: The price C of forgetting.
        kappa: The price of the divergence: weights fall no faster than exp(-loss / kappa), if the divergence is KL.
        divergence: The f-divergence: kl, chi2, js, hellinger, or alpha:A of an order A > 1.
        base_loss: The loss of a single sample: any loss, or a sum of losses.
        start: The r_max that training begins with, in (0, 1).
    """

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
    """The paper's ablation: ANTIDOTE for a share of the objective, the plain mean for the rest.

    The plain mean keeps pulling at the samples that ANTIDOTE forgets. A share of 1 is `antidote`, a share of 0 is
    cross-entropy.

    Needs: the noise rate (estimated if it is not given), or a budget.
    When: you reproduce the paper's ablation.
    Reference: Birrell and Ebrahimi, Learning to Forget with Information Divergence Reweighted Objectives for Noisy
        Labels, 2025, appendix on ablations.

    Args:
        share: The share of ANTIDOTE in the objective, in [0, 1].
    """

    share: float = 0.5

    def objective(self, samples: int) -> Objective:
        """The convex combination of ANTIDOTE and the plain mean."""
        from antidote_learn.nn.variants import Interpolated

        return Interpolated(self.share, self.budget, **self.keywords)


@dataclass(frozen=True)
class AntidoteDro(Budgeted):
    """The opposite sign, distributionally robust optimisation: the largest losses weigh most.

    The loss of a batch is its largest mean loss over the same reweightings of which ANTIDOTE takes the smallest. What
    is hard is learned harder, and so are wrong labels.

    Needs: a noise rate (estimated if it is not given), or a budget, for the size of the ball.
    When: labels are right and rare kinds of samples must not be neglected; with wrong labels, for contrast.
    Reference: Namkoong and Duchi, Stochastic Gradient Methods for Distributionally Robust Optimization with
        f-divergences, NeurIPS 2016.
    """

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
