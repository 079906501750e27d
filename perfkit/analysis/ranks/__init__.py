"""Analyzes many traces of one job together, and relates them through their collectives."""
