"""Readers of traces, recognized by content."""
