"""Steps and phases of a trace."""
