"""Work of a trace's steps, costed, grouped and held against the roofs: one analysis for suites and for traces."""
