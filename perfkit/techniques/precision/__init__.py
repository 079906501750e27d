"""Lower precision."""
