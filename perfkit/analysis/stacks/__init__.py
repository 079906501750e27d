"""Analysis of sampled Python stacks."""
