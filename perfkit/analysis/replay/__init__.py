"""Replays a recorded step with changed work, CPU time or waits."""
