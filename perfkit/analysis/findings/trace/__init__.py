"""Rules about traces: one, several ranks of a job, and one before and after a change."""
