"""Modes of commands, each in its own file: an option that makes a command do something else."""
