"""Bytes of timelines for the scripts of a page."""
