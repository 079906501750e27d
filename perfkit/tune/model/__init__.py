"""What a search is asked for, and its result."""
