"""Continuous watching of a loop: a log line per second, outliers, drift, and trace requests."""
