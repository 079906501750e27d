"""The table of events that every reader fills, and the trace that is built from it."""
