"""`python -m antidote_learn` is the command `antidote`."""

import sys

from antidote_learn.cli import main

sys.exit(main())
