"""Steps of a trace event by event: what a timeline draws."""
