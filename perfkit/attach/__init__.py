"""Watching training loops that are not perfkit's own: `perfkit.profile` and `perfkit run`."""
