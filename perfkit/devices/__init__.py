"""Ceilings of devices, the most that each can do: datasheet catalog, detection and measured ceilings."""
