"""Public models by name."""
