"""Advises what to switch on: techniques ranked for one training step, and the best that goes together."""
