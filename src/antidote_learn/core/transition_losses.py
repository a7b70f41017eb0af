"""Corrections of a loss for labels that a transition matrix has mixed: transition[i, j] = P(given = j | true = i)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from antidote_learn.core.tensors import at_least_float32

SMALLEST = 1e-7  # the least probability of a class in Backward correction, as published
# Added to both sides of a ratio of probabilities, as in published code: 0 / 0 is 1, and gradients stay below 1e14.
OFFSET = 1e-12


def forward_logits(logits: Tensor, transition: Tensor) -> Tensor:
    """The log-probabilities (B, K) of the given labels, from the logits of the true classes (Patrini et al., 2017).

    Any loss of these in place of the logits is forward-corrected: cross-entropy becomes -log (p T)_y.

    Example:
        >>> forward_logits(torch.tensor([[50.0, 0.0]]), torch.tensor([[0.8, 0.2], [0.0, 1.0]])).exp()
        tensor([[0.8000, 0.2000]])
    """
    probs = at_least_float32(logits).softmax(dim=1) @ transition
    return probs.clamp_min(torch.finfo(probs.dtype).tiny).log()


def bounded_logits(logits: Tensor) -> Tensor:
    """Log-probabilities (B, K) that are not below log 1e-7: targets below 0 have no pull beyond it (Patrini, 2017)."""
    return at_least_float32(logits).softmax(dim=1).clamp_min(SMALLEST).log()


def backward_targets(labels: Tensor, transition: Tensor) -> Tensor:
    """The row of the inverse matrix (B, K) for each label: targets that may be negative (Patrini et al., 2017).

    The mean over given labels of a loss of these targets is the loss of the true class.
    """
    inverse: Tensor = torch.linalg.inv(transition)
    return inverse[labels]


def importance_weights(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """The ratio p_y / (p T)_y (B,) of the true to the given label's probability (Liu and Tao, 2016).

    Gradients flow through it. Its largest value is 1 / T_yy. Limits: with the identity it is 1.
    """
    probs = at_least_float32(logits).softmax(dim=1)
    true, given = (table.gather(1, labels[:, None])[:, 0] + OFFSET for table in (probs, probs @ transition))
    return true / given


def draw_dirichlet_weights(weights: Tensor, alpha: float, generator: torch.Generator) -> Tensor:
    """Random weights (B,) with mean 1, whose expectation is proportional to ``weights`` (Bae et al., 2024).

    They are the mean of B draws from a Dirichlet distribution with the total concentration ``alpha``. With alpha = 0 a
    draw is one sample, and its weight counts how often it was drawn with replacement: RENT. With alpha to infinity
    they are the weights themselves.

    Args:
        weights: (B,) weights, not negative; if all are 0, samples are drawn evenly.
        alpha: The concentration, 0 or more.
        generator: The generator of the draws, on the host.

    Example:
        >>> draw_dirichlet_weights(torch.tensor([0.0, 2.0, 2.0, 0.0]), 0.0, torch.Generator().manual_seed(0)).sum()
        tensor(4.)
    """
    count = len(weights)
    shares = weights.detach().double().cpu()
    shares = shares if shares.sum() > 0.0 else torch.ones_like(shares)
    if alpha == 0.0:
        drawn = torch.multinomial(shares, count, replacement=True, generator=generator)
        return torch.bincount(drawn, minlength=count).to(weights)
    seed = int(torch.randint(2**62, (1,), generator=generator))
    drawable = (shares > 0.0).numpy()
    concentrations = alpha * (shares / shares.sum()).numpy()[drawable]
    found = np.zeros(count)
    found[drawable] = np.random.default_rng(seed).dirichlet(concentrations, size=count).mean(axis=0) * count
    return torch.from_numpy(found).to(weights)
