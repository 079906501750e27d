"""A rank's process: set-up, passes, record."""
