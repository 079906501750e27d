"""What sampled Python stacks tell."""
