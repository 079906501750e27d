"""Checks: what got worse, by how much against its threshold, and why."""
