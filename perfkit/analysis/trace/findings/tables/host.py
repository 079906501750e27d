"""Rules about the CPU: device starvation, and CPU waits."""

from perfkit.analysis.findings.rule import GAIN, NOTE, About, FindingKind, Rule
from perfkit.analysis.trace.findings import data_wait, host, launch_latency
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent

_LEAST, _COMMON = f"at least {format_percent(NOTABLE, 0)}", f"at least {format_percent(COMMON, 0)}"
_IDLE = "The idle time in these calls, extended to the next launch if it follows within 1 ms."

CPU_BOUND = FindingKind(
    "launch.cpu_bound",
    GAIN,
    f"The device is idle with nothing queued for {_COMMON} of the step, in gaps below 1 ms without another cause.",
    'Do more per launch: `torch.compile(mode="reduce-overhead")`, CUDA graphs or a larger batch.',
    "This idle time.",
    techniques=("compile",),
)
DISPATCH = FindingKind(
    "cpu.dispatch",
    GAIN,
    f"On a CPU, no op runs, or only tiny ones, for {_COMMON} of the step.",
    "Run fewer, larger ops: `torch.compile`, fused or foreach optimizers, or a larger batch.",
    "This time.",
    techniques=("compile", "optim:use=fused"),
)
LONG_GAPS = FindingKind(
    "idle.long_gaps",
    GAIN,
    f"The device is idle with nothing queued for {_LEAST} of the step, in gaps of 1 ms or more without another cause.",
    "Move the CPU work in these gaps to another thread, to DataLoader workers or before the loop.",
    "The time of these gaps.",
)
SYNCHRONIZATIONS = tuple(
    FindingKind(
        f"sync.{cause}",
        GAIN,
        f"The device is idle for {_LEAST} of the step in synchronizing calls, mostly {calls}.",
        advice,
        _IDLE,
        techniques=techniques,
    )
    for cause, calls, advice, techniques in (
        (
            "item",
            "reads of a value (`.item()`, `bool(tensor)`)",
            "Keep the value on the device and read it every N steps.",
            (),
        ),
        (
            "data_dependent_shape",
            "ops with data-dependent output shapes (`nonzero`, boolean masks, `unique`)",
            "Keep shapes fixed, for example with three-argument `torch.where`.",
            (),
        ),
        (
            "copy",
            "copies",
            "Copy with `non_blocking=True` from pinned memory.",
            ("data:pin=true:non_blocking=true",),
        ),
        ("other", "other calls (`synchronize`)", "Remove the call from the step.", ()),
    )
)
ALLOCATION = FindingKind(
    "sync.device_allocation",
    GAIN,
    f"The device is idle for {_LEAST} of the step around `cudaMalloc`, `cudaFree` or similar calls.",
    "Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, keep shapes constant, and leave some memory free.",
    _IDLE,
)
STARVED = FindingKind(
    "data.starved",
    GAIN,
    f"Timed steps spend {_COMMON} in the DataLoader's `next()`, on the rank that waits most; without timed steps, the "
    f"device is idle for {_LEAST} of the step while a batch is fetched.",
    "Raise `num_workers` and `prefetch_factor` of the DataLoader, with `persistent_workers=True` and "
    "`pin_memory=True`.",
    "The mean wait, limited to the device's idle time meanwhile.",
    techniques=("data",),
)
SHORT_KERNELS = FindingKind(
    "launch.short_kernels",
    GAIN,
    f"Kernels shorter than 5 us and their launches take {_COMMON} of the step.",
    "Fuse them with `torch.compile`, launch them in CUDA graphs, or use foreach or fused optimizers.",
    "The idle time before these kernels, at most 5 us each.",
    techniques=("compile", "optim:use=fused"),
)
LATENCY = FindingKind(
    "launch.latency",
    GAIN,
    f"The device is idle with work queued for {_COMMON} of the step: up to 50 us from a launch to its kernel, up to "
    "10 us from one kernel to the next.",
    "Run fewer, longer kernels: `torch.compile`, CUDA graphs, fused ops or a larger batch.",
    "This idle time.",
    techniques=("compile", "optim:use=fused"),
)
RECORDS_GRAPH = FindingKind(
    "inference.records_graph",
    NOTE,
    "Autograd records nodes, layers are in evaluation, and no gradient is computed.",
    "Run the model under `torch.inference_mode()`.",
)
BLOCKED = FindingKind(
    "launch.blocked",
    NOTE,
    f"The device is idle with work queued for {_COMMON} of the step, in gaps longer than launch latency.",
    "Look for lost kernels, other processes on the device, and streams that wait for each other.",
)

RULES = (
    Rule(host.find_host_bound, TraceView, About.STEP, (CPU_BOUND, DISPATCH)),
    Rule(host.find_long_gaps, TraceView, About.STEP, (LONG_GAPS,)),
    Rule(host.find_synchronization, TraceView, About.STEP, SYNCHRONIZATIONS),
    Rule(host.find_device_allocation, TraceView, About.STEP, (ALLOCATION,)),
    Rule(data_wait.find_data_wait, TraceView, About.STEP, (STARVED,)),
    Rule(host.find_short_kernels, TraceView, About.STEP, (SHORT_KERNELS,)),
    Rule(host.find_graph_without_backward, TraceView, About.STEP, (RECORDS_GRAPH,)),
    Rule(launch_latency.find_launch_latency, TraceView, About.STEP, (LATENCY,)),
    Rule(launch_latency.find_blocked_launches, TraceView, About.STEP, (BLOCKED,)),
)
