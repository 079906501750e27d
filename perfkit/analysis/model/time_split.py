"""What the time of a step is split into: the categories of `TimeShare`."""

COMPUTE_BOUND = "compute-bound"
MEMORY_BOUND = "memory-bound"
UNMODELLED = "unmodelled"
COMMUNICATION = "communication"
COPIES = "copies"
LATENCY_BOUND = "latency-bound"  # the device ran calls too small to be bound by arithmetic or bytes
DATA = "waiting for data"
HOST = "host"  # idle with nothing to do: the host had launched nothing; on a CPU also dispatch and Python
OTHER_IDLE = "other idle"  # idle although something was launched: latency, dependencies; or it is not known why

# In the order in which overlapping work is counted; idle time comes last.
CPU_CATEGORIES = (COMPUTE_BOUND, MEMORY_BOUND, UNMODELLED, COMMUNICATION, COPIES, HOST)
DEVICE_CATEGORIES = (
    COMPUTE_BOUND, MEMORY_BOUND, UNMODELLED, LATENCY_BOUND, COMMUNICATION, COPIES, HOST, OTHER_IDLE
)  # fmt: skip
