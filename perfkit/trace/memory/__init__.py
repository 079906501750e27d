"""Where allocation events come from besides perfkit's own recorder: traces, allocator snapshots, memory timelines."""
