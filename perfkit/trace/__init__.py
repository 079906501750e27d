"""Reading traces of torch.profiler."""
