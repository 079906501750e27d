"""Rules about a suite: outcomes of variants, attached loops, the measurement itself."""
