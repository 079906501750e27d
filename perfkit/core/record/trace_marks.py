"""Ranges that a worker marks in a trace (record_function) and in NVTX, read back by the analyzing side."""

MARK_PREFIX = "perfkit::"
STEP_MARK = MARK_PREFIX + "step"
PHASES = ("data", "forward", "backward", "optimizer")
