"""Dumps of torch's flight recorder."""
