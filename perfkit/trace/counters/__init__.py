"""Hardware counters of an Nsight Compute export, matched to the kernels of a trace."""
