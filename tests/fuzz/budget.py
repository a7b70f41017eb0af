"""How long a fuzzer may run, and from which seed: both can be set from outside."""

import os


def fuzz_seconds() -> float:
    """Seconds that each fuzz test may use: 12, or what ANTIDOTE_FUZZ_SECONDS says."""
    return float(os.environ.get("ANTIDOTE_FUZZ_SECONDS", "12"))


def fuzz_seed() -> int:
    """The seed of every fuzz test: 0, or what ANTIDOTE_FUZZ_SEED says."""
    return int(os.environ.get("ANTIDOTE_FUZZ_SEED", "0"))
