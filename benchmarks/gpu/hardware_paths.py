"""The paths of perfkit in `docs/hardware.md`: their tests without a GPU, and the rows that decide on one."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.gpu.hardware_findings import compare_step_clock, count_lost_kernels
from benchmarks.gpu.hardware_results import DeviceResults

NONE = "–"


@dataclass(frozen=True)
class CodePath:
    """A path; `rows` are patterns of `SCRIPT ROW`, `finding` is a device's key figure.

    `noted` was seen on a GPU without a row of a script.
    """

    name: str
    cpu: str
    recorded: str
    fakes: str
    rows: tuple[str, ...] = ()
    noted: str = ""
    decided: str = ""  # where no row decides
    finding: Callable[[DeviceResults], str | None] | None = None


_TESTS_RAN = "H200: tests of tests/gpu passed"

PATHS = (
    CodePath(
        "read and analyze traces, NVIDIA", "yes", "yes: H100 in the tests; V100, A100, B200", "yes",
        ("stands tests",), _TESTS_RAN,
    ),
    CodePath(
        "read and analyze traces, AMD", "yes", "yes: MI250 in the tests; MI300", "yes",
        decided="nothing yet: it needs an AMD GPU",
    ),
    CodePath("measure on ROCm and XPU, without sensors", NONE, "no", "XPU", decided="nothing yet: it needs such GPUs"),
    CodePath(
        "record a trace, lost kernels", "yes", "no", "yes", ("stands lost-*", "overheads lost"),
        finding=count_lost_kernels,
    ),
    CodePath("device timeline, idle time and its causes", NONE, "yes", "yes", ("attach recorded",)),
    CodePath(
        "step clock: events on a stream", NONE, "no", "yes", ("attach recorded", "attach always-on"),
        finding=compare_step_clock,
    ),
    CodePath("step times alone and interleaved, MFU", "yes", NONE, "yes", ("steps *",)),
    CodePath("no context in a bench's parent", NONE, "no", "yes", ("stands parent",)),
    CodePath(
        "memory: events of the profiler", "yes", "yes", "yes", ("techniques *",),
        "H200: the allocator's peak to the byte",
    ),
    CodePath(
        "memory: history of the CUDA allocator", NONE, "no", "yes", ("stands tests", "attach history"), _TESTS_RAN
    ),
    CodePath(
        "memory: outside the allocator, balance with NVML", NONE, "no", "yes", ("stands nvml", "techniques *"),
        "H200: 43 processes without a residual",
    ),
    CodePath(
        "plan for a GPU: CUDA's dispatch, caching allocator, memory outside it", "as a CPU's step",
        "a snapshot that torch printed", NONE, noted="H200: 28 peaks", decided="`python -m benchmarks.plan_h200`",
    ),
    CodePath("out of memory on a device", NONE, "no", "yes", ("stands tests",), "H200: a failing request"),
    CodePath(
        "NVML: utilization, clocks, power, other processes", NONE, "no", "yes", ("stands nvml", "ceilings short")
    ),
    CodePath("NVML: clocks of timed steps, reasons for lower ones", NONE, "no", "yes", ("overheads energy-pass",)),
    CodePath("energy", NONE, "no", "yes", ("overheads energy*", "attach bench-energy")),
    CodePath(
        "datasheet ceilings", NONE, NONE, NONE, ("ceilings plain",),
        "H200: seven dtypes and memory below them (`ceilings short`)",
    ),
    CodePath("calibration of a GPU", NONE, "no", "yes", ("ceilings short", "ceilings full")),
    CodePath("FLOPs and bytes by formula", "yes", "yes, without counters", NONE, ("counters *", "pm_sampling *")),
    CodePath(
        "hardware counters (Nsight Compute)", NONE, "no", "yes: constructed exports", ("counters *",),
        "H200: started, not completed",
    ),
    CodePath("hardware counters (PM sampling)", NONE, "no", "yes", ("pm_sampling *", "recorders *")),
    CodePath("traces by CUPTI's monitor (torch 2.14)", NONE, "no", "yes", ("recorders *",)),
    CodePath("TF32 and Tensor Cores of an op", NONE, "names of kernels", "yes", ("stands tests",), _TESTS_RAN),
    CodePath(
        "amp, ckpt, flash (math)", "yes", NONE, NONE,
        ("techniques gpt.baseline", "techniques gpt.amp", "techniques gpt.ckpt", "stands tests"), "H200: yes",
    ),
    CodePath(
        "flash (flash, efficient, cuDNN)", "flash", NONE, NONE, ("techniques gpt.*flash*",), "H200: yes"
    ),
    CodePath("offload to the host", NONE, NONE, NONE, ("techniques gpt.offload*",), "H200: yes"),
    CodePath("offload to disk", "yes", NONE, NONE, ("stands tests",), _TESTS_RAN),
    CodePath("compile", "yes", NONE, NONE, ("techniques gpt.compile", "steps *"), "H200: yes"),
    CodePath(
        "compile with CUDA graphs", NONE, "no", "yes", ("techniques *reduce-overhead", "attach graphs"), "H200: yes"
    ),
    CodePath("max-autotune, sparse24, SOAP, Liger", "yes", NONE, "yes", ("more_techniques *",)),
    CodePath(
        "attached loops, `perfkit run`, callbacks", "yes", NONE, "yes",
        ("attach recorded", "attach idle", "overheads overhead-*"), "H200: timm, Transformers, Hugging Face's Trainer",
    ),
    CodePath(
        "always-on recording, traces on request", "yes", NONE, "yes",
        ("overheads overhead-*", "attach always-on", "attach triggered"),
    ),
    CodePath("checks in CI: CPU time, exact quantities", "yes", NONE, NONE, decided="nothing yet"),
    CodePath(
        "zero1, zero2, zero3, ddp over NCCL, several GPUs", "over Gloo", "traces of ranks", "yes",
        noted="H200: ddp and zero3, two ranks on one GPU", decided="`stands tests`, on two GPUs",
    ),
    CodePath(
        "tp, pp, cp, ep over NCCL", "over Gloo; cp with a stand-in", NONE, NONE,
        noted="H200: two ranks on one GPU", decided=NONE,
    ),
    CodePath("hsdp, local_sgd, ssp, ddp hooks over NCCL", "over Gloo", NONE, NONE, ("ranks *",)),
    CodePath(
        "position of each rank when one fails: NCCL's flight recorder", "Gloo's", NONE, "dumps by torch's sources",
        ("ranks *",), "H200: two ranks on one GPU, in the tests",
    ),
)  # fmt: skip
