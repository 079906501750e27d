"""Answers of those who rent GPUs: which, how many, and at what cost."""
