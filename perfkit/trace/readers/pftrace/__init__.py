"""Perfetto's binary traces: torch's from 2.14 on, and a timeline of what others write."""
