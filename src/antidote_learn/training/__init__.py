"""Runs: the loop, evaluation, checkpoints, and the distributed engine."""
