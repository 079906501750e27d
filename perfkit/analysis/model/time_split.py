"""Categories of a step's time (`TimeShare`)."""

COMPUTE_BOUND = "compute-bound"
MEMORY_BOUND = "memory-bound"
NO_ESTIMATE = "no FLOP or byte estimate"
NO_CEILING = "no known ceiling"  # FLOPs and bytes are known, but nothing to hold them against
COMMUNICATION = "communication"
COPIES = "copies"
LATENCY_BOUND = "latency-bound"  # the device ran calls too small to be bound by arithmetic or bytes
DATA = "waiting for data"
PYTHON = "Python and dispatch"  # on a CPU: no op worked, or too small ones; waiting is in here too
UNKNOWN_EVENTS = "events of unknown kind"  # on a CPU, where no op worked: other tools' events
UNRECORDED = "not recorded"  # device activity unknown: not in the trace
WAITING_FOR_CPU = "idle waiting for the CPU"  # a device, with nothing to do: the CPU had launched nothing
IDLE_BESIDE = "idle while another device works"  # of several: they take turns, or one has less to do
IDLE_QUEUED = "idle with work queued"  # latency, dependencies between streams
IDLE_UNKNOWN = "idle, cause unknown"  # unknown whether anything was queued

# Computing work by its bound, and that whose bound is not known.
PLACED = (COMPUTE_BOUND, MEMORY_BOUND, LATENCY_BOUND)
UNPLACED = (NO_ESTIMATE, NO_CEILING)
# Of a device only; a CPU is never idle: it dispatches or waits.
IDLE = (IDLE_BESIDE, WAITING_FOR_CPU, IDLE_QUEUED, IDLE_UNKNOWN)

# In the order in which overlapping work is counted; the rest comes last.
CPU_CATEGORIES = (COMPUTE_BOUND, MEMORY_BOUND, *UNPLACED, COMMUNICATION, COPIES, PYTHON)
# Without what only one of several devices has.
DEVICE_CATEGORIES = (
    COMPUTE_BOUND, MEMORY_BOUND, *UNPLACED, LATENCY_BOUND, COMMUNICATION, COPIES, UNRECORDED,
    *(category for category in IDLE if category != IDLE_BESIDE),
)  # fmt: skip
