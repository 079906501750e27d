"""The analysis of traces that somebody recorded, on whatever machine."""
