"""Why a device had nothing to do: the causes that its idle time is split into."""

from perfkit.analysis.model.time_split import DATA, IDLE_UNKNOWN, UNRECORDED

# With nothing queued: the host was in the way.
SYNC = "a call that waits for the device"
ALLOCATION = "a call that takes or releases memory"
ELSEWHERE = "the host did something else"
LATE = "launches came late"
PEERS = "waiting for other ranks"
AT_THE_END = "after the last launch"

# With work queued.
STARTING = "a kernel was starting"
BETWEEN = "between queued kernels"
OTHER_STREAM = "waiting for another stream"
HELD_UP = "queued, cause unknown"

# The number of a cause is its place here.
CAUSES = (
    DATA, SYNC, ALLOCATION, ELSEWHERE, LATE, PEERS, AT_THE_END,
    STARTING, BETWEEN, OTHER_STREAM, HELD_UP, IDLE_UNKNOWN, UNRECORDED,
)  # fmt: skip
