"""What to switch on: the shelf ranked for one training step, and the best that goes together."""
