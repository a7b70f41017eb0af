"""Learning from labels that cannot be trusted: ANTIDOTE and everything around it.

Names are imported when they are first used, so that the command line's help does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from antidote_learn._version import __version__

if TYPE_CHECKING:
    from antidote_learn import functional as functional
    from antidote_learn._types import Arrays as Arrays
    from antidote_learn._types import NoisyLabels as NoisyLabels
    from antidote_learn._types import Relaxed as Relaxed
    from antidote_learn._types import Status as Status
    from antidote_learn.auditing.applying import apply_decisions as apply_decisions
    from antidote_learn.auditing.audit_result import Audit as Audit
    from antidote_learn.auditing.audits import audit as audit
    from antidote_learn.auditing.label_issues import find_label_issues as find_label_issues
    from antidote_learn.auditing.tracking import Tracker as Tracker
    from antidote_learn.auditing.undoing import undo_decisions as undo_decisions
    from antidote_learn.core.budgets import delta_from_rate as delta_from_rate
    from antidote_learn.core.budgets import rate_from_delta as rate_from_delta
    from antidote_learn.core.conjugates import from_conjugate as from_conjugate
    from antidote_learn.core.divergences import CHI2 as CHI2
    from antidote_learn.core.divergences import HELLINGER as HELLINGER
    from antidote_learn.core.divergences import JS as JS
    from antidote_learn.core.divergences import KL as KL
    from antidote_learn.core.divergences import Divergence as Divergence
    from antidote_learn.core.divergences import alpha as alpha
    from antidote_learn.core.rates import NoiseRate as NoiseRate
    from antidote_learn.core.rates import estimate_noise_rate as estimate_noise_rate
    from antidote_learn.core.relaxation import dual_objective as dual_objective
    from antidote_learn.core.relaxation import relax as relax
    from antidote_learn.core.relaxation import relax_penalized as relax_penalized
    from antidote_learn.core.transition_matrices import TransitionEstimate as TransitionEstimate
    from antidote_learn.core.transition_matrices import estimate_transition as estimate_transition
    from antidote_learn.core.transition_matrices import total_variation_error as total_variation_error
    from antidote_learn.data.noise import inject as inject
    from antidote_learn.estimators.network import AntidoteClassifier as AntidoteClassifier
    from antidote_learn.estimators.reweighting import RobustClassifier as RobustClassifier
    from antidote_learn.nn.accumulation import accumulate as accumulate
    from antidote_learn.nn.antidote import AntidoteLoss as AntidoteLoss
    from antidote_learn.nn.dataset import DatasetAntidoteLoss as DatasetAntidoteLoss
    from antidote_learn.nn.robust_loss import RobustLoss as RobustLoss
    from antidote_learn.registry import loss as loss
    from antidote_learn.registry import register_method as register_method
    from antidote_learn.training.results import Run as Run
    from antidote_learn.training.runs import load as load
    from antidote_learn.training.runs import train as train

_HOME = {
    "AntidoteClassifier": "estimators.network",
    "AntidoteLoss": "nn.antidote",
    "Arrays": "_types",
    "Audit": "auditing.audit_result",
    "CHI2": "core.divergences",
    "DatasetAntidoteLoss": "nn.dataset",
    "Divergence": "core.divergences",
    "HELLINGER": "core.divergences",
    "JS": "core.divergences",
    "KL": "core.divergences",
    "NoiseRate": "core.rates",
    "NoisyLabels": "_types",
    "Relaxed": "_types",
    "RobustClassifier": "estimators.reweighting",
    "RobustLoss": "nn.robust_loss",
    "Run": "training.results",
    "Status": "_types",
    "Tracker": "auditing.tracking",
    "TransitionEstimate": "core.transition_matrices",
    "accumulate": "nn.accumulation",
    "alpha": "core.divergences",
    "apply_decisions": "auditing.applying",
    "audit": "auditing.audits",
    "delta_from_rate": "core.budgets",
    "dual_objective": "core.relaxation",
    "estimate_noise_rate": "core.rates",
    "estimate_transition": "core.transition_matrices",
    "find_label_issues": "auditing.label_issues",
    "from_conjugate": "core.conjugates",
    "inject": "data.noise",
    "load": "training.runs",
    "loss": "registry",
    "rate_from_delta": "core.budgets",
    "register_method": "registry",
    "relax": "core.relaxation",
    "relax_penalized": "core.relaxation",
    "total_variation_error": "core.transition_matrices",
    "train": "training.runs",
    "undo_decisions": "auditing.undoing",
}

__all__ = ["__version__", "functional", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name == "functional":
        return import_module("antidote_learn.functional")
    if name not in _HOME:
        raise AttributeError(f"module 'antidote_learn' has no attribute {name!r}")
    value = getattr(import_module(f"antidote_learn.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
