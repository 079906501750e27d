"""Rehearses a training step on fake tensors."""
