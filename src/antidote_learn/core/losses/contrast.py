"""Per-sample losses that set the given class against the others, or change the logits first (see `likelihood`)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from antidote_learn.core.losses.classes import Classes, classes_of, complement, log_probabilities
from antidote_learn.core.losses.likelihood import focal_terms

MODES = ("paper", "reference")


def ldr_kl(input: Tensor, target: Tensor, *, temperature: float = 10.0, margin: float = 0.1) -> Tensor:
    """Label-distributionally robust loss: t log((1/K) sum_k exp((c 1[k != y] + f_k - f_y) / t)).

    f are the logits through softplus, divided by their mean. It may be negative. Limits: margin 0 and all f equal
    give 0.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        temperature: t > 0.
        margin: c >= 0.

    Example:
        >>> import torch
        >>> ldr_kl(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]), temperature=1.0)
        tensor([-0.7863])
    """
    classes, logits = classes_of(input, target), _wide(input)
    scaled = torch.softmax(_log_softplus(logits), 1) * (logits.shape[1] / temperature)
    behind = scaled.logsumexp(1, keepdim=True) - classes.of(scaled)  # log sum_k exp((f_k - f_y) / t)
    own = torch.log1p(math.expm1(-margin / temperature) * (-behind).exp())  # the given class has no margin
    return classes.loss(margin + temperature * (behind + own - math.log(logits.shape[1])))


def logitclip(input: Tensor, target: Tensor, *, clip: float = 1.0, mode: str = "paper") -> Tensor:
    """Cross-entropy of logits whose norm is limited, and which is thereby bounded.

    "paper": z min(1, clip / |z|). "reference", as released code does: clip z / |z| where |z| > 1 / clip, else z.
    The two agree for clip = 1. Limits: paper with clip -> infinity is cross-entropy.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        clip: Above 0.
        mode: "paper" or "reference".

    Example:
        >>> import torch
        >>> logitclip(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]), clip=0.5)
        tensor([1.0602])
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    logits = _wide(input)
    largest = logits.detach().abs().amax(1, keepdim=True).clamp(min=1e-30)  # squares of 1e30 have no float32
    square = (logits / largest).square().sum(1, keepdim=True)
    beyond = square.detach().sqrt() * largest > (clip if mode == "paper" else 1.0 / clip)
    norm = torch.where(beyond, square, 1.0).sqrt() * largest  # a root of 0 has no derivative
    classes = classes_of(input, target)
    clipped = torch.where(beyond, logits * (clip / norm), logits)
    return -classes.loss(classes.of(log_probabilities(clipped)))


def eps_ce(input: Tensor, target: Tensor, *, m: float = 1e5, floor: float = 1e-8) -> Tensor:
    """Cross-entropy of the eps-softmax: -log max(p', floor), p' = (p_y + m [y is the top class]) / (m + 1).

    In [0, -log(floor)]. Limits: m = 0 is cross-entropy up to its floor, below which nothing is learned.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        m: How far the top class is pushed, >= 0.
        floor: Least probability, in (0, 1): a label is given up where p_y < floor (m + 1).

    Example:
        >>> import torch
        >>> eps_ce(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]), m=10.0)
        tensor([0.0267])
    """
    classes = classes_of(input, target)
    return classes.loss(-_log_eps_softmax(classes, log_probabilities(input), m, floor))


def eps_focal(
    input: Tensor,
    target: Tensor,
    *,
    m: float = 1e5,
    gamma: float = 0.1,
    floor: float = 1e-8,
    detach: bool = False,
) -> Tensor:
    """Focal loss of the eps-softmax, (1 - p')^g (-log p'), p' as in `eps_ce`.

    Limits: g = 0 is `eps_ce`; m = 0 is the focal loss up to its floor.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        m: How far the top class is pushed.
        gamma: g >= 0.
        floor: Least probability.
        detach: Whether the gradient holds (1 - p')^g fixed, as published code does.

    Example:
        >>> import torch
        >>> eps_focal(torch.tensor([[2.0, 0.5, -1.0, 0.0]]), torch.tensor([0]), m=10.0)
        tensor([0.0186])
    """
    classes = classes_of(input, target)
    return classes.loss(focal_terms(_log_eps_softmax(classes, log_probabilities(input), m, floor), gamma, detach))


def nlnl(input: Tensor, target: Tensor, *, draws: int = 1, generator: torch.Generator | None = None) -> Tensor:
    """Negative learning: draws times the mean of -log(1 - p_k), at most 11.5, over classes k that are not the given.

    With a generator, the mean over ``draws`` classes drawn from it, as published; without one over all K - 1 of them,
    which is what the draws are on average.

    Args:
        input: Logits.
        target: Class indices, or probabilities (without a generator only).
        draws: How many complementary labels a sample has.
        generator: Where they are drawn, on any device.

    Example:
        >>> import torch
        >>> nlnl(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
        tensor([0.6931])
    """
    table = -complement(log_probabilities(input)).clamp(min=1e-5).log()
    classes, count = classes_of(input, target), table.shape[1]
    if generator is None:
        return classes.loss((table.sum(1, keepdim=True) - classes.of(table)) * (draws / (count - 1)))
    if not classes.is_index:
        raise ValueError("complementary labels are drawn for class indices; with probabilities leave the generator out")
    shape = (len(target), draws, *target.shape[1:])
    steps = torch.randint(1, count, shape, generator=generator, device=generator.device).to(target.device)
    return table.gather(1, (classes.target + steps) % count).sum(1)


def _wide(input: Tensor) -> Tensor:
    return input.float() if input.dtype in (torch.float16, torch.bfloat16) else input


def _log_softplus(z: Tensor) -> Tensor:
    """log(log(1 + e^z)), z - e^z / 2 + 5 e^2z / 24 far below 0, where softplus itself has no digits left."""
    low, small = z < -12.0, z.clamp(max=-12.0).exp()
    near = torch.nn.functional.softplus(z.clamp(min=-12.0), threshold=40.0).log()  # beyond it softplus(z) is z
    return torch.where(low, z - small * (0.5 - small * (5.0 / 24.0)), near)


def _log_eps_softmax(classes: Classes, log_p: Tensor, m: float, floor: float) -> Tensor:
    """The logarithm of p' of the eps-softmax, at least log(floor)."""
    top = classes.are(log_p.argmax(1, keepdim=True))
    own = classes.of(log_p)
    pushed = torch.log1p(torch.where(top, torch.expm1(own), 0.0) / (m + 1.0))
    return torch.where(top, pushed, own - math.log1p(m)).clamp(min=math.log(floor))
