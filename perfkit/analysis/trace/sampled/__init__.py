"""Counters that were sampled while a trace was recorded."""
