"""Measuring two revisions of a training step beside each other, in pairs of processes."""
