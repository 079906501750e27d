"""Analysis of a trace: its time, its bounds, and its distance from the roofs."""
