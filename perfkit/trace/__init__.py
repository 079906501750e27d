"""Reads traces of torch.profiler."""
