"""Dumps of torch's flight recorder: which collective it is that ranks wait in, and for whom."""
