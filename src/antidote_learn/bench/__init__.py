"""Benchmarks: grids of runs, their tables, and figures of runs and grids."""
