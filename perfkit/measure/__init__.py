"""Measuring: what orders the runs of a bench, starts them, and runs their passes."""
