"""How true findings and `perfkit tune` are: planted faults in training scripts, and the same scripts without them."""
