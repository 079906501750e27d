"""Replayed graphs: each graph's kernels in the order of its nodes, and what tells a node (`node_tokens`)."""
