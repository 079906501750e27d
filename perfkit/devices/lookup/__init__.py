"""Ceilings of a device, for a run or for a trace."""
