"""The report on a search for the change that made training worse."""
