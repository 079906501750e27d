"""The techniques: changes to a training step, each with its claims and its parity rule."""
