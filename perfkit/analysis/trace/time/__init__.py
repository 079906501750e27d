"""Time windows of a trace: steps, intervals, launches, wall time."""
