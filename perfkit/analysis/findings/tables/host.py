"""Rules about the host: whether it feeds the device, and what it waits for."""

from perfkit.analysis.findings.rule import GAIN, NOTE, About, FindingKind, Rule
from perfkit.analysis.findings.suite import loops
from perfkit.analysis.findings.suite.suite_view import SuiteView
from perfkit.analysis.findings.trace import data, host, launch_latency
from perfkit.analysis.findings.trace.thresholds import COMMON, NOTABLE
from perfkit.analysis.findings.trace.trace_view import TraceView
from perfkit.units import format_percent

_LEAST, _COMMON = f"at least {format_percent(NOTABLE, 0)}", f"at least {format_percent(COMMON, 0)}"
_IDLE = "The device's idle time in these calls, and on to the next launch if that follows within a millisecond."

CPU_BOUND = FindingKind(
    "launch.cpu_bound",
    GAIN,
    f"The device is idle for {_COMMON} of the step with nothing queued, in gaps below a millisecond that have no other "
    "cause.",
    'Give the device more per launch: a larger batch, `torch.compile(mode="reduce-overhead")` or CUDA graphs.',
    "That idle time.",
)
DISPATCH = FindingKind(
    "cpu.dispatch",
    GAIN,
    f"On a CPU, no op works for {_COMMON} of the step.",
    "Give each op more to do, or have fewer ops (`torch.compile`, fused and foreach optimizers).",
    "That time.",
)
LONG_GAPS = FindingKind(
    "idle.long_gaps",
    GAIN,
    f"The device is idle for {_LEAST} of the step with nothing queued, in gaps of a millisecond or more that have no "
    "other cause.",
    "Move what the host does then to another thread, before the loop, or into the loader's workers.",
    "The time of these gaps.",
)
SYNCHRONIZATIONS = tuple(
    FindingKind(
        f"sync.{cause}",
        GAIN,
        f"The device is idle for {_LEAST} of the step in calls that wait for it, most of it in {calls}.",
        advice,
        _IDLE,
    )
    for cause, calls, advice in (
        (
            "item",
            "reads of a value (`.item()`, `bool(tensor)`)",
            "Keep the value on the device and read it every so many steps.",
        ),
        (
            "data_dependent_shape",
            "ops whose result has a shape that depends on data (`nonzero`, boolean masks, `unique`)",
            "Keep shapes fixed, such as by `torch.where` with three arguments.",
        ),
        ("copy", "copies", "Copy with `non_blocking=True` from pinned memory."),
        ("other", "other calls (`synchronize`)", "Remove the call from the step."),
    )
)
ALLOCATION = FindingKind(
    "sync.device_allocation",
    GAIN,
    f"The device is idle for {_LEAST} of the step around `cudaMalloc`, `cudaFree` and the like.",
    "Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, keep shapes equal from step to step, and leave memory "
    "free.",
    _IDLE,
)
STARVED = FindingKind(
    "data.starved",
    GAIN,
    f"A timed step spends {_COMMON} in `next()` of its DataLoader, on the rank that waits most; without timed steps, "
    f"the device is idle for {_LEAST} of the step while a batch is fetched.",
    "Raise `num_workers` and `prefetch_factor` of the DataLoader, with `persistent_workers=True` and "
    "`pin_memory=True`.",
    "The mean wait; on a device no more than it was idle meanwhile.",
)
SHORT_KERNELS = FindingKind(
    "launch.short_kernels",
    GAIN,
    f"Kernels shorter than 5 us and their launches take {_COMMON} of the step.",
    "Fuse them with `torch.compile`, start them together with CUDA graphs, or use foreach or fused optimizers.",
    "The idle time before these kernels, at most 5 us each.",
)
LATENCY = FindingKind(
    "launch.latency",
    GAIN,
    f"The device is idle for {_COMMON} of the step with work queued: up to 50 us from a launch to its kernel on an "
    "idle "
    "device, up to 10 us from one kernel to the next.",
    "Have fewer and longer kernels: `torch.compile`, CUDA graphs, fused ops, a larger batch.",
    "That idle time.",
)
BLOCKED = FindingKind(
    "launch.blocked",
    NOTE,
    f"The device is idle for {_COMMON} of the step though work was launched, longer than starting a kernel takes.",
    "Look for lost kernels, other processes on the device, and streams that wait for each other.",
)

RULES = (
    Rule(host.find_host_bound, TraceView, About.STEP, (CPU_BOUND, DISPATCH), "compile"),
    Rule(host.find_long_gaps, TraceView, About.STEP, (LONG_GAPS,)),
    Rule(host.find_synchronization, TraceView, About.STEP, SYNCHRONIZATIONS),
    Rule(host.find_device_allocation, TraceView, About.STEP, (ALLOCATION,)),
    Rule(data.find_data_wait, TraceView, About.STEP, (STARVED,), "data"),
    Rule(loops.find_untraced_data_wait, SuiteView, About.STEP, (STARVED,)),
    Rule(host.find_short_kernels, TraceView, About.STEP, (SHORT_KERNELS,)),
    Rule(launch_latency.find_launch_latency, TraceView, About.STEP, (LATENCY,)),
    Rule(launch_latency.find_blocked_launches, TraceView, About.STEP, (BLOCKED,)),
)
