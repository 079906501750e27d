"""Samples of Python stacks, taken from outside of the process by py-spy."""
