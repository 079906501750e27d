"""Reads allocation events from sources other than perfkit's own recorder: traces, allocator snapshots, memory
timelines."""
