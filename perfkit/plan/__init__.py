"""Memory and time of a training step before it is trained: workloads and techniques on fake tensors."""
