"""Sparse gradients of a rehearsed step, and the indices that decide their size."""
