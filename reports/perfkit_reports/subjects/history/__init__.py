"""Reports on histories: figures over many runs, and their changes."""
