"""Output of commands: listings, progress, reports, errors."""
