"""Runs: the training loop, evaluation, checkpoints, and the distributed engine."""
