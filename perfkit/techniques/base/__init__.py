"""What techniques are made of: the interface, the training state, the mesh of ranks."""
