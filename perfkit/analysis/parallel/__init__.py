"""Runs the analysis of traces: in this process, in other processes, or on Ray."""
