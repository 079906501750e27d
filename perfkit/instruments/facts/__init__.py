"""Facts that claims are checked against, measured while a model trains."""
