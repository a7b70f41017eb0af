"""The relaxation and the per-sample losses as functions, under their public names."""

from antidote_learn.core.losses.likelihood import cross_entropy
from antidote_learn.core.relaxation import dual_objective, relax, relax_penalized

__all__ = ["cross_entropy", "dual_objective", "relax", "relax_penalized"]
