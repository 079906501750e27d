"""Replaying a recorded step: what it would have taken had its work, its host or its waits been others."""
