"""Goodput of public training scripts, beside a stopwatch."""
