"""Measures two revisions of a training step side by side, in process pairs."""
