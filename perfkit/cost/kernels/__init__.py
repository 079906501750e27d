"""Costs and units of kernels by their names and arguments."""
