"""Compilers and trainers that drive the step."""
