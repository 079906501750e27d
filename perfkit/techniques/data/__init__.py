"""Batch sizes, sequence lengths, layouts, data loading."""
