"""Pure functions on tensors: divergences, solvers, the relaxation, the noise rate."""
