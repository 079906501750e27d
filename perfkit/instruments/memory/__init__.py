"""Recording what a training loop allocates: which block, when, by what, and what for."""
