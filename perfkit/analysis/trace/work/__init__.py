"""Work of a trace's steps, with costs, groups and roofs: one analysis for suites and for traces."""
