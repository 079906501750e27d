"""Tuning: finds the techniques that make a workload faster or smaller, and proves each gain by measurement."""
