"""Advises techniques: ranked for one training step, with the best combination."""
