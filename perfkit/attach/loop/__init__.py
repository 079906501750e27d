"""Hooks that follow a loop: its steps, phases, models, batches."""
