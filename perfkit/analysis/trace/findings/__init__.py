"""Rules about traces: one, several ranks of one job, and one before and after a change."""
