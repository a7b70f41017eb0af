"""The relaxation and the per-sample losses as functions, under their public names."""

from antidote_learn.core.losses.asymmetric import ael, agce, aul
from antidote_learn.core.losses.bounded import gce, mae, mse, rce, sce
from antidote_learn.core.losses.contrast import eps_ce, eps_focal, ldr_kl, logitclip, nlnl
from antidote_learn.core.losses.likelihood import cross_entropy, focal, ls, nce, nfl, nnce, nnfl
from antidote_learn.core.relaxation import dual_objective, relax, relax_penalized

__all__ = [
    "ael",
    "agce",
    "aul",
    "cross_entropy",
    "dual_objective",
    "eps_ce",
    "eps_focal",
    "focal",
    "gce",
    "ldr_kl",
    "logitclip",
    "ls",
    "mae",
    "mse",
    "nce",
    "nfl",
    "nlnl",
    "nnce",
    "nnfl",
    "rce",
    "relax",
    "relax_penalized",
    "sce",
]
