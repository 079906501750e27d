"""Processes that are resident together and step by turns, so that each sees the same machine."""
