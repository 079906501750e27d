"""Records the allocations of a training loop: block, time, origin and purpose."""
