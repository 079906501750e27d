"""The parts of a watched program's wall time: training, and what is none."""
