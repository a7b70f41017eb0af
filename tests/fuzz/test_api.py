"""Calls of the Python API with nasty values: a right answer, or one line that names what was wrong.

A call is text, so that a failing one can be pasted after the imports below.
"""

import contextlib
import io
import math
import random
import re
import time
import warnings
from collections import Counter

import numpy as np
import torch

import antidote_learn as antidote
from antidote_learn import Relaxed, Status
from tests.fuzz.budget import SECONDS, SEED

LEAST = 400  # cases, however slow the machine is

LOSSES = torch.tensor([0.1, 0.4, 0.4, 2.0, 3.0, 0.2, 7.0, 0.9], dtype=torch.float64)
LOGITS = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
LABELS = [0, 1, 2] * 20
PROBS = np.eye(3)[LABELS] * 0.85 + 0.05
FEATURES = np.random.default_rng(0).normal(size=(60, 4)) + 3 * np.eye(3, 4)[LABELS]

NUMBERS = [
    "float('nan')", "float('inf')", "-float('inf')", "-0.0", "0", "0.0", "5e-324", "2.2e-308", "1e-300", "1e-12", "0.3",
    "0.999999", "1", "1.0", "2", "2.5", "1e16", "1e300", "1.7e308", "-1", "-1e-9", "10**30", "10**400", "-(10**400)",
    "2**63", "True", "False", "None", "'a'", "'0.3'", "''", "b'1'", "1j", "complex(0.3)", "[]", "[0.3]", "(0.3,)", "{}",
    "np.float32(0.3)", "np.float64('nan')", "np.int64(2)", "np.uint8(255)", "np.bool_(True)", "np.array(0.3)",
    "np.array([0.3])", "np.array([0.3, 0.4])", "np.complex128(0.3)", "torch.tensor(0.3)", "torch.tensor(2)",
    "torch.tensor([0.3])", "torch.tensor([0.3, 0.1])", "torch.tensor(float('nan'))", "torch.tensor(1j)", "object()",
    "lambda: 0.3", "range(3)", "float",
]  # fmt: skip
DIVERGENCES = [
    "'kl'", "'chi2'", "'js'", "'hellinger'", "'alpha:1.5'", "'alpha:8'", "'alpha:100'", "'alpha:1000'", "'alpha:1e9'",
    "'alpha:1.0000001'", "'alpha:'", "'alpha:nan'", "'alpha'", "''", "'KL'", "None", "3", "['kl']", "antidote.alpha(3)",
]  # fmt: skip
VECTORS = [
    "LOSSES", "LOSSES.float()", "LOSSES.half()", "LOSSES.bfloat16()", "LOSSES * 0", "LOSSES * 1e30", "LOSSES * 1e-310",
    "LOSSES * 1e300", "LOSSES[:1]", "LOSSES[:0]", "LOSSES.long()", "LOSSES.cfloat()", "LOSSES.bool()", "-LOSSES",
    "LOSSES[None]", "LOSSES / 0", "LOSSES - LOSSES / 0", "LOSSES.numpy()", "LOSSES.tolist()", "None", "0.3", "'a'",
    "torch.where(LOSSES > 5, float('inf'), LOSSES)", "torch.where(LOSSES > 5, float('nan'), LOSSES)",
    "torch.ones(8)", "torch.ones(8, dtype=torch.int8)", "torch.zeros(8)", "TARGET",
]  # fmt: skip
LABELLINGS = [
    "LABELS", "np.array(LABELS)", "np.array(LABELS, np.int8)", "torch.tensor(LABELS)", "[10**6] + LABELS[1:]",
    "[2**62] + LABELS[1:]", "[10**30] + LABELS[1:]", "[-1] + LABELS[1:]", "[0.5] + LABELS[1:]", "[float('nan')] * 60",
    "[None] * 60", "['a', 'b', 'c'] * 20", "[1j] * 60", "[[0]] * 60", "LABELS[:7]", "[]", "'abc'", "3", "None",
    "np.array(LABELS, float)", "np.array(LABELS, complex)", "np.array(LABELS, object)", "[True, False] * 30",
    "[0] * 60", "list(range(60))", "[3] * 60", "torch.tensor(LABELS).float()", "{0: 1}", "object()",
]  # fmt: skip
TABLES = [
    "PROBS", "PROBS.tolist()", "torch.tensor(PROBS)", "PROBS[None]", "PROBS * 2", "PROBS - 0.2", "PROBS[:7]",
    "PROBS[:, :1]", "PROBS[0]", "PROBS * float('nan')", "PROBS / 0", "PROBS.astype(complex)", "PROBS.astype(str)",
    "PROBS > 0.5", "[]", "PROBS.astype(object)", "None", "3", "'a'", "np.empty((60, 0))", "np.empty((0, 3))",
    "FEATURES", "FEATURES * 1e300", "FEATURES * float('nan')", "[[1, 2], [3]]", "object()",
]  # fmt: skip
NOISES = [
    "'none'", "'symmetric:0.4'", "'symmetric:nan'", "'symmetric:1e400'", "'symmetric:-0'", "'symmetric'", "'pair:1'",
    "'instance:0.3'", "'adversarial:0.3'", "'asymmetric:0.2:sequential=true'", "'human:worse'", "''", "':'", "'a:b:c'",
    "'symmetric:0.1:mode='", "None", "3", "np.eye(3)", "np.eye(2)", "np.eye(3) * 2", "np.eye(3) * 1j", "[[1]]", "[]",
    "torch.eye(3)", "b'none'", "object()",
]  # fmt: skip

CALLS: dict[str, dict[str, tuple[str, list[str]]]] = {
    "antidote.relax": {
        "losses": ("LOSSES", VECTORS), "delta": ("0.3", NUMBERS), "kappa": ("0.05", NUMBERS),
        "divergence": ("'kl'", DIVERGENCES), "base_weight": ("None", VECTORS), "groups": ("None", VECTORS),
    },
    "antidote.relax_penalized": {
        "losses": ("LOSSES", VECTORS), "penalty": ("1.0", NUMBERS), "kappa": ("0.05", NUMBERS),
        "divergence": ("'kl'", DIVERGENCES), "base_weight": ("None", VECTORS),
    },
    "antidote.dual_objective": {
        "losses": ("LOSSES", VECTORS), "lam": ("0.5", NUMBERS), "rho": ("-1.0", NUMBERS), "delta": ("0.3", NUMBERS),
        "kappa": ("0.05", NUMBERS), "divergence": ("'chi2'", DIVERGENCES),
    },
    "antidote.delta_from_rate": {"rate": ("0.2", NUMBERS), "divergence": ("'kl'", DIVERGENCES)},
    "antidote.rate_from_delta": {"delta": ("0.2", NUMBERS), "divergence": ("'kl'", DIVERGENCES)},
    "antidote.alpha": {"a": ("1.5", NUMBERS)},
    "loss_step": {
        "delta": ("0.3", NUMBERS), "noise_rate": ("None", NUMBERS), "penalty": ("None", NUMBERS),
        "kappa": ("0.05", NUMBERS), "divergence": ("'kl'", DIVERGENCES), "label_smoothing": ("0.0", NUMBERS),
        "ignore_index": ("-100", NUMBERS),
    },
    "robust_step": {
        "name": ("'ce'", ["'gce:q=0.7'", "'gce:q=nan'", "'gce:q='", "''", "'+'", "'1e999*ce'", "None", "3", "'mae'"]),
        "label_smoothing": ("0.0", NUMBERS), "ignore_index": ("-100", NUMBERS),
        "reduction": ("'mean'", ["'sum'", "'none'", "''", "None", "3", "[]"]),
    },
    "dataset_step": {
        "num_samples": ("8", NUMBERS), "noise_rate": ("0.2", NUMBERS), "kappa": ("0.05", NUMBERS),
        "progress": ("1.0", NUMBERS),
    },
    "antidote.estimate_noise_rate": {
        "probs": ("PROBS", TABLES), "labels": ("LABELS", LABELLINGS), "share": ("0.3", NUMBERS),
    },
    "antidote.inject": {
        "y": ("LABELS", LABELLINGS), "spec": ("'symmetric:0.4'", NOISES), "X": ("FEATURES", TABLES),
        "seed": ("0", NUMBERS), "num_classes": ("3", NUMBERS),
        "data": ("None", ["'cifar10'", "'nothing'", "3", "None"]),
    },
    "antidote.find_label_issues": {
        "labels": ("LABELS", LABELLINGS), "pred_probs": ("PROBS", TABLES), "features": ("None", TABLES),
        "flag": ("None", NUMBERS), "max_flagged": ("None", NUMBERS), "fdr": ("None", NUMBERS),
    },
    "track": {
        "labels": ("LABELS", LABELLINGS), "num_classes": ("3", NUMBERS), "index": ("range(8)", [*VECTORS, *NUMBERS]),
        "said": ("LOGITS", [*VECTORS, "LOGITS[:, :2]", "LOGITS * float('nan')"]), "fdr": ("None", NUMBERS),
        "flag": ("None", NUMBERS), "max_flagged": ("None", NUMBERS),
    },
}  # fmt: skip


def loss_step(**keywords: object) -> Relaxed | None:
    """A step of `AntidoteLoss` with these keywords."""
    loss = antidote.AntidoteLoss(**keywords)  # type: ignore[arg-type]
    loss(LOGITS.clone().requires_grad_(), TARGET).backward()
    return loss.last


def robust_step(name: object, **keywords: object) -> None:
    """A step of a robust loss."""
    antidote.loss(name, **keywords)(LOGITS.clone().requires_grad_(), TARGET).sum().backward()  # type: ignore[arg-type]


def dataset_step(num_samples: object, progress: object, **keywords: object) -> Relaxed | None:
    """A step of `DatasetAntidoteLoss` with these keywords."""
    loss = antidote.DatasetAntidoteLoss(num_samples, **keywords)  # type: ignore[arg-type]
    loss.set_progress(progress)  # type: ignore[arg-type]
    index = torch.arange(min(8, loss.num_samples))
    loss(LOGITS[index], TARGET[index], index=index)
    return loss.last


def track(labels: object, num_classes: object, index: object, said: object, **cut: object) -> object:
    """A tracker that hears one batch."""
    tracker = antidote.Tracker(labels, num_classes=num_classes)  # type: ignore[arg-type]
    tracker.add(index, said)  # type: ignore[arg-type]
    return tracker.table(**cut)  # type: ignore[arg-type]


def random_call(rng: random.Random) -> str:
    """A call as text, with one or two arguments that are nasty."""
    name = rng.choice(list(CALLS))
    chosen = rng.sample(list(CALLS[name]), min(rng.choice([1, 1, 2]), len(CALLS[name])))
    texts = {key: rng.choice(pool) if key in chosen else plain for key, (plain, pool) in CALLS[name].items()}
    return f"{name}({', '.join(f'{key}={text}' for key, text in texts.items())})"


def complaint(call: str) -> str | None:
    """What is wrong with how a call ended; None where nothing is."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            result = eval(call)
    except ValueError as error:
        return None if str(error) and "\n" not in str(error) else f"ValueError of several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return false_claim(result) if isinstance(result, Relaxed) else None


def false_claim(solved: Relaxed) -> str | None:
    """What a solution says of itself and is not so."""
    status, weights = Status(int(solved.status)), solved.weights.double()
    if status in (Status.EMPTY, Status.INFINITE, Status.INACCURATE):
        return None
    achieved, delta = float(solved.raw["achieved"]), float(solved.raw["delta"])
    if not (math.isfinite(float(solved.value.detach())) and (weights >= 0).all()):
        return f"status {status.name} with value {float(solved.value.detach())} and weights {weights.tolist()}"
    if solved.mass is None and abs(float(weights.mean()) - 1) > 1e-5:
        return f"status {status.name} with weights of mean {float(weights.mean())}"
    return None if achieved <= delta * (1 + 1e-6) else f"status {status.name} with D = {achieved}, delta = {delta}"


def test_every_call_ends_in_an_answer_or_in_one_line() -> None:
    rng, end, counts = random.Random(SEED), time.monotonic() + SECONDS, Counter[str]()
    wrong: dict[str, str] = {}
    while time.monotonic() < end or counts.total() < LEAST:
        call = random_call(rng)
        counts[call.partition("(")[0]] += 1
        found = complaint(call)
        if found:
            wrong.setdefault(re.sub(r"[\d.]+", "#", call.partition("(")[0] + found)[:100], f"{call}\n    {found}")
    print(f"{counts.total()} calls: {dict(counts)}")
    assert not wrong, f"{len(wrong)} kinds of failure after {counts.total()} calls:\n" + "\n".join(wrong.values())
