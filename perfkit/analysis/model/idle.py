"""Causes that the idle time of a device is split into."""

from perfkit.analysis.model.time_split import DATA, IDLE_UNKNOWN, UNRECORDED

# With nothing queued: caused by the CPU.
SYNC = "synchronization"
ALLOCATION = "memory allocation or release"
ELSEWHERE = "CPU busy elsewhere"
LATE = "CPU launched late"
PEERS = "waiting for other ranks"
AT_THE_END = "after the last launch"

# With work queued.
STARTING = "launch latency"
BETWEEN = "between queued kernels"
OTHER_STREAM = "waiting for another stream"
HELD_UP = "queued, cause unknown"

# With or without: a device that has no work while another device of its process works.
OTHER_DEVICE = "another device works"

# The number of a cause is its place here.
CAUSES = (
    DATA, SYNC, ALLOCATION, ELSEWHERE, LATE, PEERS, AT_THE_END,
    STARTING, BETWEEN, OTHER_STREAM, HELD_UP, OTHER_DEVICE, IDLE_UNKNOWN, UNRECORDED,
)  # fmt: skip
