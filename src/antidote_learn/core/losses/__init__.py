"""Per-sample losses: pure functions (logits, targets) -> losses, listed in one literal table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antidote_learn._types import PerSampleLoss

Number = Callable[[Mapping[str, Any], int], float]
"""(parameters, number of classes) -> a number."""


@dataclass(frozen=True)
class LossEntry:
    """A loss that can be named.

    Attributes:
        about: One line for people.
        formula: In LaTeX.
        place: Its file and function, which is imported when it is first used: names need no torch.
        parameters: What may follow the name, with its default.
        reference: Who proposed it, and where.
        low: Its infimum; -inf where it has none.
        high: Its supremum, or a bound above that; None where it has none.
        total: What the losses of all classes sum to, whatever the logits; None where that depends on them.
    """

    about: str
    formula: str
    place: str
    parameters: Mapping[str, Any]
    reference: str
    low: Number = field(default=lambda given, classes: 0.0)
    high: Number | None = None
    total: Number | None = None

    @property
    def function(self) -> PerSampleLoss:
        """(logits, targets, *, parameters) -> losses."""
        file, _, name = self.place.partition(".")
        function: PerSampleLoss = getattr(import_module(f"{__name__}.{file}"), name)
        return function


LOSSES: dict[str, LossEntry] = {
    "ce": LossEntry(
        "cross-entropy",
        r"-\log p_y",
        "likelihood.cross_entropy",
        {},
        "the maximum likelihood of a categorical model",
    ),
    "ls": LossEntry(
        "label smoothing, or with a rate below 0 negative label smoothing",
        r"-(1 - r) \log p_y - \tfrac{r}{K} \sum_k \log p_k",
        "likelihood.ls",
        {"rate": 0.1},
        "Szegedy et al., CVPR 2016; Wei et al., ICML 2022",
        low=lambda given, classes: _least_when_smooth(given["rate"], classes),
    ),
    "focal": LossEntry(
        "focal loss: less weight on what is learned",
        r"(1 - p_y)^\gamma (-\log p_y)",
        "likelihood.focal",
        {"gamma": 0.5, "detach": False},
        "Lin et al., ICCV 2017",
    ),
    "mae": LossEntry(
        "mean absolute error",
        r"2 (1 - p_y)",
        "bounded.mae",
        {},
        "Ghosh et al., AAAI 2017",
        high=lambda given, classes: 2.0,
        total=lambda given, classes: 2.0 * (classes - 1),
    ),
    "mse": LossEntry(
        "mean squared error, or Brier score",
        r"\tfrac{1}{K} \sum_k (p_k - [k = y])^2",
        "bounded.mse",
        {},
        "Ghosh et al., AAAI 2017",
        high=lambda given, classes: 2.0 / classes,
    ),
    "gce": LossEntry(
        "generalised cross-entropy: between cross-entropy and mean absolute error",
        r"(1 - p_y^q) / q",
        "bounded.gce",
        {"q": 0.7},
        "Zhang and Sabuncu, NeurIPS 2018",
        high=lambda given, classes: 1.0 / given["q"],
    ),
    "rce": LossEntry(
        "reverse cross-entropy",
        r"-A (1 - p_y), \; A = \log \mathrm{floor}",
        "bounded.rce",
        {"floor": 1e-4},
        "Wang et al., ICCV 2019",
        high=lambda given, classes: -math.log(given["floor"]),
        total=lambda given, classes: -math.log(given["floor"]) * (classes - 1),
    ),
    "sce": LossEntry(
        "symmetric cross-entropy",
        r"-\alpha \log p_y - \beta A (1 - p_y)",
        "bounded.sce",
        {"alpha": 0.1, "beta": 1.0, "floor": 1e-4},
        "Wang et al., ICCV 2019",
    ),
    "nce": LossEntry(
        "normalised cross-entropy",
        r"\log p_y / \textstyle\sum_k \log p_k",
        "likelihood.nce",
        {},
        "Ma et al., ICML 2020",
        high=lambda given, classes: 1.0,
        total=lambda given, classes: 1.0,
    ),
    "nfl": LossEntry(
        "normalised focal loss",
        r"\mathrm{FL}_y / \textstyle\sum_k \mathrm{FL}_k",
        "likelihood.nfl",
        {"gamma": 0.5, "detach": False},
        "Ma et al., ICML 2020",
        high=lambda given, classes: 1.0,
        total=lambda given, classes: 1.0,
    ),
    "nnce": LossEntry(
        "normalised negative cross-entropy: of the classes that are not the label",
        r"1 - (A + \log p_y) / \textstyle\sum_k (A + \log p_k), \; A = -\log \mathrm{floor}, \; p_k \ge \mathrm{floor}",
        "likelihood.nnce",
        {"floor": 1e-8},
        "Ye et al., NeurIPS 2023",
        high=lambda given, classes: 1.0,
        total=lambda given, classes: classes - 1.0,
    ),
    "nnfl": LossEntry(
        "normalised negative focal loss",
        r"1 - (A - \mathrm{FL}_y) / \textstyle\sum_k (A - \mathrm{FL}_k), \; A = \mathrm{FL}(\mathrm{floor})",
        "likelihood.nnfl",
        {"gamma": 0.5, "floor": 1e-8, "detach": False},
        "Ye et al., NeurIPS 2023",
        high=lambda given, classes: 1.0,
        total=lambda given, classes: classes - 1.0,
    ),
    "aul": LossEntry(
        "asymmetric unhinged loss",
        r"\bigl((a - p_y)^q - (a - 1)^q\bigr) / q",
        "asymmetric.aul",
        {"a": 6.3, "q": 1.5},
        "Zhou et al., ICML 2021",
        high=lambda given, classes: (given["a"] ** given["q"] - (given["a"] - 1) ** given["q"]) / given["q"],
    ),
    "ael": LossEntry(
        "asymmetric exponential loss",
        r"e^{-p_y / a}",
        "asymmetric.ael",
        {"a": 5.0},
        "Zhou et al., ICML 2021",
        low=lambda given, classes: math.exp(-1.0 / given["a"]),
        high=lambda given, classes: 1.0,
    ),
    "agce": LossEntry(
        "asymmetric generalised cross-entropy",
        r"\bigl((a + 1)^q - (a + p_y)^q\bigr) / q",
        "asymmetric.agce",
        {"a": 6.0, "q": 1.5},
        "Zhou et al., ICML 2021",
        high=lambda given, classes: ((given["a"] + 1) ** given["q"] - given["a"] ** given["q"]) / given["q"],
    ),
    "ldr-kl": LossEntry(
        "label-distributionally robust loss",
        r"t \log \tfrac{1}{K} \sum_k e^{(c [k \ne y] + f_k - f_y) / t}, \; f = \mathrm{softplus}(z) / \mathrm{mean}",
        "contrast.ldr_kl",
        {"temperature": 10.0, "margin": 0.1},
        "Zhu et al., ICML 2023",
        low=lambda given, classes: _margin_minimum(given["temperature"], given["margin"], classes),
        high=lambda given, classes: _margin_maximum(given["temperature"], given["margin"], classes),
    ),
    "logitclip": LossEntry(
        "cross-entropy of logits with a limited norm",
        r"\mathrm{CE}\bigl(z \min(1, \mathrm{clip} / \lVert z \rVert)\bigr)",
        "contrast.logitclip",
        {"clip": 1.0, "mode": "paper"},
        "Wei et al., ICML 2023",
        low=lambda given, classes: _least_when_clipped(_longest(given), classes),
        high=lambda given, classes: math.log(classes) + 2.0 * _longest(given),
    ),
    "eps-ce": LossEntry(
        "cross-entropy of the eps-softmax",
        r"-\log \max(p'_y, \mathrm{floor}), \; p'_y = (p_y + m [y = \arg\max p]) / (m + 1)",
        "contrast.eps_ce",
        {"m": 1e5, "floor": 1e-8},
        "Wang et al., NeurIPS 2024",
        high=lambda given, classes: -math.log(given["floor"]),
    ),
    "eps-focal": LossEntry(
        "focal loss of the eps-softmax",
        r"(1 - p'_y)^\gamma (-\log p'_y)",
        "contrast.eps_focal",
        {"m": 1e5, "gamma": 0.1, "floor": 1e-8, "detach": False},
        "Wang et al., NeurIPS 2024",
        high=lambda given, classes: -math.log(given["floor"]),
    ),
    "nlnl": LossEntry(
        "negative learning: the sample is not of another class",
        r"\tfrac{\mathrm{draws}}{K - 1} \sum_{k \ne y} -\log(1 - p_k)",
        "contrast.nlnl",
        {"draws": 1},
        "Kim et al., ICCV 2019",
        high=lambda given, classes: given["draws"] * math.log(1e5),
    ),
}


def _least_when_smooth(rate: float, classes: int) -> float:
    """The least loss: the entropy of the smoothed label where it is a distribution, else -inf."""
    shares = [1.0 - rate + rate / classes] + [rate / classes] * (classes - 1)
    if min(shares) < 0.0:
        return -math.inf
    return -sum(share * math.log(share) for share in shares if share > 0.0)


def _longest(given: Mapping[str, Any]) -> float:
    """The norm that clipped logits may have."""
    return float(given["clip"] if given["mode"] == "paper" else max(given["clip"], 1.0 / given["clip"]))


def _least_when_clipped(norm: float, classes: int) -> float:
    """The least loss: all other classes are alike, and as far below the label as the norm allows."""
    return math.log1p((classes - 1) * math.exp(-norm * math.sqrt(classes / (classes - 1))))


def _margin_minimum(t: float, margin: float, classes: int) -> float:
    """The least loss: all of the scores' sum K is on the given class."""
    return t * math.log(((classes - 1) * math.exp((margin - classes) / t) + 1.0) / classes)


def _margin_maximum(t: float, margin: float, classes: int) -> float:
    """The largest loss: all of the scores' sum K is on another class."""
    others = math.exp((margin + classes) / t) + (classes - 2) * math.exp(margin / t)
    return t * math.log((others + 1.0) / classes)
