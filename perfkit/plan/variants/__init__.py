"""Plans each variant of a bench."""
