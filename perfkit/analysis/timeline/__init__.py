"""Steps of a trace event by event, for timelines."""
