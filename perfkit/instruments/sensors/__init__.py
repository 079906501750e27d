"""Sensors of the machine and its devices: energy, load, memory."""
