"""Rules about a suite: outcomes of variants, attached loops, and the measurement itself."""
