"""Texts before they are recorded: without secrets, and not longer than a reader needs."""
