"""Ops of a trace: nesting, cost, kernels, modules."""
