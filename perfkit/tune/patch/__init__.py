"""Patches: rewrites a program's source so that it uses the techniques that a search found."""
