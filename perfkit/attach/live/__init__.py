"""Watching a loop all the time: a log line a second, outliers, drift, and what asks for a trace."""
