"""The method `auto`: an audit and a training in one, which decides by held-out evidence how to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from antidote_learn.training.loop import Trainer
    from antidote_learn.training.plans import TrainingPlan


@dataclass(frozen=True)
class Auto:
    """An audit and a training in one: models of several kinds, fitted on what is believed of the labels.

    Short trainings, and on tables a linear model, boosted trees and a forest, judge rows that they were not fitted on.
    They show how classes are mistaken for one another, and what every label should be. The models are then fitted on
    these beliefs. How much each counts in the end is what makes the given labels of held-out rows likeliest. Where the
    evidence is weak, the given labels are trained on, as they are or with `antidote-dataset`.

    Needs: nothing but labels.
    When: to get a good model from labels that cannot be trusted, without choosing a method or a model.
    Reference: this package.

    Args:
        models: The models that may take part: all, linear, trees or network.
    """

    models: Literal["all", "linear", "trees", "network"] = "all"

    def plan_training(self, trainer: Trainer, folder: Path) -> TrainingPlan:
        """Decides how to train, or reads what was decided before."""
        from antidote_learn.auditing.auto_plan import decide_training

        return decide_training(self.models, trainer, folder)
