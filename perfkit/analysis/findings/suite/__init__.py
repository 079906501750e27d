"""Rules about a suite: what its variants showed, loops of somebody else's, and the measurement itself."""
