"""What the variants of a workload would need, before they are run."""
