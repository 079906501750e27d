"""The report on a search for the best techniques."""
