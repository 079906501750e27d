"""Figures of what a training step takes, for tests to make assertions on: what `perfkit_check` in pytest is made of."""
