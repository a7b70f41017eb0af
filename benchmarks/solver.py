"""Speed of the solver and of the loss, as ratios against references timed in the same interleaved run.

Prints one JSON. Every figure is the mean over 40 random batches of the median over repetitions on one batch; a
repetition times short bursts of calls, of one contender after the other.

    python benchmarks/solver.py [--quick] [--no-compile]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import bisect, brentq
from torch import Tensor

from antidote_learn import KL, AntidoteLoss, alpha
from antidote_learn.core.solve import weigh

DELTA, KAPPA = -math.log(0.6), 0.05
BURST = 10  # calls of a small batch
TARGETS = {
    "kl_128_over_scipy_bisect": 1 / 8,
    "kl_over_scipy_brentq_worst_size": 1 / 2,
    "chi2_128_over_kl": 4.0,
    "alpha_1.5_128_over_kl": 4.0,
    "loss_128x10_over_cross_entropy": 2.7,
    "loss_1024x1000_over_cross_entropy": 1.15,
    "compiled_loss_128x10_over_compiled_cross_entropy": 2.0,
    "ten_million_over_torch_exp": 15.0,
    "ten_million_extra_memory_over_losses": 2.0,
    "import_seconds_beyond_torch": 0.2,
}


def noisy_losses(size: int, seed: int) -> Tensor:
    """Losses of a batch of which two fifths are mislabelled, as in the middle of a training run."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(size) < 0.4
    return torch.tensor(np.where(wrong, rng.gamma(4.0, 1.0, size), rng.exponential(0.3, size)), dtype=torch.float32)


def kl_derivative(losses: np.ndarray[Any, Any], lam: float) -> float:
    """The derivative of G_KL in lam, formed as the authors do: max-shifted, three separate terms, float32 losses."""
    t = lam + KAPPA
    low = losses.min()
    e = np.exp(-(losses - low) / t)
    mean = e.mean()
    return float(-DELTA + low / t - np.log(mean) - (losses * e).mean() / mean / t)


def scipy_solve(losses: Tensor, method: Callable[..., float]) -> float:
    """The multiplier by SciPy with its defaults: lower end 0, upper end 10 doubled while the derivative is positive."""
    values = losses.numpy()
    if kl_derivative(values, 0.0) <= 0.0:
        return 0.0
    upper = 10.0
    while kl_derivative(values, upper) >= 0.0:
        upper *= 2.0
    return method(lambda lam: kl_derivative(values, lam), 0.0, upper)


def in_turn(calls: dict[str, Callable[[], Any]], repeats: int, burst: int = 1) -> dict[str, list[float]]:
    """Seconds of each call at every repetition: bursts of each are timed in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(burst):
                call()
            times[name].append((time.perf_counter() - start) / burst)
    return times


def interleaved(calls: dict[str, Callable[[], Any]], repeats: int, burst: int = 1) -> dict[str, float]:
    """The median seconds of each call."""
    return {name: statistics.median(values) for name, values in in_turn(calls, repeats, burst).items()}


def over_batches(
    make: Callable[[int], dict[str, Callable[[], Any]]], batches: int, repeats: int, burst: int
) -> dict[str, float]:
    """The mean over batches of the medians."""
    medians = [interleaved(make(seed), repeats, burst) for seed in range(batches)]
    return {name: statistics.fmean(m[name] for m in medians) for name in medians[0]}


def solve_times(size: int, batches: int, repeats: int, burst: int) -> dict[str, float]:
    """KL, chi-square and alpha = 1.5 against SciPy."""
    half = alpha(1.5)
    chi2 = alpha(2.0)

    def make(seed: int) -> dict[str, Callable[[], Any]]:
        losses = noisy_losses(size, seed)
        return {
            "kl": lambda: weigh(losses, KL, KAPPA, delta=DELTA),
            "bisect": lambda: scipy_solve(losses, bisect),
            "brentq": lambda: scipy_solve(losses, brentq),
            "chi2": lambda: weigh(losses, chi2, KAPPA, delta=DELTA),
            "alpha_1.5": lambda: weigh(losses, half, KAPPA, delta=DELTA),
        }

    return over_batches(make, batches, repeats, burst)


def loss_times(
    shape: tuple[int, int], batches: int, repeats: int, burst: int, *, compiled: bool = False
) -> dict[str, float]:
    """Forward and backward of AntidoteLoss, all checks on, against `F.cross_entropy`."""
    antidote: Any = AntidoteLoss(DELTA, kappa=KAPPA)
    plain: Any = F.cross_entropy
    if compiled:
        antidote, plain = torch.compile(antidote, fullgraph=True), torch.compile(plain, fullgraph=True)

    def make(seed: int) -> dict[str, Callable[[], Any]]:
        generator = torch.Generator().manual_seed(seed)
        logits = (2.0 * torch.randn(shape, generator=generator)).requires_grad_()
        labels = torch.randint(0, shape[1], shape[:1], generator=generator)

        def step(loss: Any) -> None:
            logits.grad = None
            loss(logits, labels).backward()

        return {"antidote": lambda: step(antidote), "cross_entropy": lambda: step(plain)}

    return over_batches(make, batches, repeats, burst)


def peak_bytes() -> int:
    """The peak resident memory of this process, from Linux's account of it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def reset_peak() -> int:
    """Makes the present resident memory the peak."""
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")
    return peak_bytes()


def ten_million(repeats: int) -> dict[str, float]:
    """1e7 float32 losses against one fresh `torch.exp` over them, and the memory beyond the losses."""
    losses = noisy_losses(10_000_000, 0)
    before = reset_peak()
    weigh(losses, KL, KAPPA, delta=DELTA)
    extra = peak_bytes() - before
    solve = lambda: weigh(losses, KL, KAPPA, delta=DELTA)  # noqa: E731
    times = interleaved({"solve": solve, "exp": lambda: torch.exp(losses)}, repeats)
    return {**times, "extra_memory_over_losses": extra / (losses.numel() * 4)}


def ten_million_apart() -> dict[str, float]:
    """`ten_million` in a process of its own, whose peak memory is its own."""
    done = subprocess.run([sys.executable, __file__, "--ten-million"], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def import_seconds(repeats: int) -> float:
    """Median seconds that the package takes beyond `import torch`, with the loss and all else that needs torch only."""
    code = (
        "import time, torch; start = time.perf_counter(); import antidote_learn as a; "
        "[getattr(a, name) for name, home in a._HOME.items() if home.split('.')[0] in ('_types', 'core', 'nn')]; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats)]
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    """Measures everything and prints one JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer batches and repetitions")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--ten-million", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ten_million:
        print(json.dumps(ten_million(3 if options.quick else 7)))
        return
    batches, repeats = (8, 9) if options.quick else (40, 15)
    small, large = loss_times((128, 10), batches, repeats, BURST), loss_times((1024, 1000), batches, repeats, 1)
    sizes = {n: solve_times(n, batches, repeats, BURST if n < 8192 else 1) for n in (128, 512, 2048, 8192, 65536)}
    big, at_128 = ten_million_apart(), sizes[128]
    ratios = {
        "kl_128_over_scipy_bisect": at_128["kl"] / at_128["bisect"],
        "kl_over_scipy_brentq_worst_size": max(times["kl"] / times["brentq"] for times in sizes.values()),
        "chi2_128_over_kl": at_128["chi2"] / at_128["kl"],
        "alpha_1.5_128_over_kl": at_128["alpha_1.5"] / at_128["kl"],
        "loss_128x10_over_cross_entropy": small["antidote"] / small["cross_entropy"],
        "loss_1024x1000_over_cross_entropy": large["antidote"] / large["cross_entropy"],
        "ten_million_over_torch_exp": big["solve"] / big["exp"],
        "ten_million_extra_memory_over_losses": big["extra_memory_over_losses"],
        "import_seconds_beyond_torch": import_seconds(3 if options.quick else 7),
    }
    if not options.no_compile:
        fused = loss_times((128, 10), batches, repeats, BURST, compiled=True)
        ratios["compiled_loss_128x10_over_compiled_cross_entropy"] = fused["antidote"] / fused["cross_entropy"]
    met = {name: {"at_most": TARGETS[name], "met": bool(value <= TARGETS[name])} for name, value in ratios.items()}
    timed = {"loss_128x10": small, "loss_1024x1000": large, **{f"solve_{n}": times for n, times in sizes.items()}}
    protocol = {"batches": batches, "repeats": repeats, "burst": BURST, "delta": DELTA, "kappa": KAPPA}
    report = {
        "ratios": {name: round(value, 4) for name, value in ratios.items()},
        "targets": met,
        "microseconds": {what: {k: round(v * 1e6, 1) for k, v in times.items()} for what, times in timed.items()},
        "protocol": {**protocol, "threads": torch.get_num_threads()},
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
