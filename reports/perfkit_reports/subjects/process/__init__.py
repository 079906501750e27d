"""A running process, seen from outside."""
