"""Reports on comparisons of runs."""
