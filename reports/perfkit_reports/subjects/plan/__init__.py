"""The plan of a workload: the memory and time that its variants would need, before they are run."""
