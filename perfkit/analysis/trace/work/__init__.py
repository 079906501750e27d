"""What ran in a trace's steps, costed, grouped and held against the roofs: one engine for suites and for traces."""
