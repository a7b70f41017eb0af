"""How long each fuzz test runs, and where its random choices begin: both can be set from outside."""

import os

SECONDS = float(os.environ.get("ANTIDOTE_FUZZ_SECONDS", "12"))
SEED = int(os.environ.get("ANTIDOTE_FUZZ_SEED", "0"))
