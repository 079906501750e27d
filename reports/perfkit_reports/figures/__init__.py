"""Interactive figures of traces, one file each."""
