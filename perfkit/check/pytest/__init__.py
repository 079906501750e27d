"""Figures of a training step for assertions in tests: the parts of `perfkit_check` in pytest."""
