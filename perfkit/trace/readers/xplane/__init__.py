"""XLA's own recordings (`.xplane.pb`): of JAX, TensorFlow and PyTorch/XLA."""
