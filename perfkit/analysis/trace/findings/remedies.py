"""Advice by framework, kind of device and purpose: tables, of which the first row that serves a trace is given."""

from typing import NamedTuple

from perfkit.devices.accelerator import CUDA, NPU, ROCM
from perfkit.trace.frameworks import JAX, MINDSPORE, TENSORFLOW, TORCH, XLA

_HAVE_GRAPHS = frozenset({CUDA.kind, ROCM.kind})
_NPUS = frozenset({NPU.kind})
_TORCH, _XLA, _TENSORFLOW = frozenset({TORCH}), frozenset({JAX, XLA}), frozenset({TENSORFLOW})
_MINDSPORE = frozenset({MINDSPORE})


class Remedy(NamedTuple):
    """An instruction, and which traces it serves: of all frameworks, devices and purposes where None.

    `trains` is True for what helps training alone, which a trace that only infers is not advised, and False for what
    helps inference alone. `{type}` in the text is torch's word for the device.
    """

    how: str
    frameworks: frozenset[str] | None = None
    devices: frozenset[str] | None = None
    trains: bool | None = None

    def serves(self, framework: str, device: str, *, trains: bool | None) -> bool:
        return (
            (self.frameworks is None or framework in self.frameworks)
            and (self.devices is None or device in self.devices)
            and (self.trains is None or self.trains == (trains is not False))
        )


Remedies = tuple[Remedy, ...]

_ONE_JIT = "one jax.jit around the whole step, jax.lax.scan over layers or steps"
_TF_FUNCTION = "tf.function(jit_compile=True), several steps per execution"
_MS_GRAPH = "graph mode (mindspore.set_context(mode=mindspore.GRAPH_MODE))"

FEWER_LAUNCHES = (
    Remedy(
        'Do more per launch: torch.compile(mode="reduce-overhead"), CUDA graphs (torch.cuda.make_graphed_callables) '
        "or a larger batch.",
        _TORCH,
        _HAVE_GRAPHS,
    ),
    Remedy("Do more per launch: torchair's graph mode, fused ops of torch_npu, or a larger batch.", _TORCH, _NPUS),
    Remedy("Do more per launch: torch.compile, foreach or fused ops, or a larger batch.", _TORCH),
    Remedy(f"Do more per launch: {_ONE_JIT}, or a larger batch.", _XLA),
    Remedy(f"Do more per launch: {_TF_FUNCTION}, or a larger batch.", _TENSORFLOW),
    Remedy(f"Do more per launch: {_MS_GRAPH}, or a larger batch.", _MINDSPORE),
    Remedy("Do more per launch: fuse ops, or increase the batch size."),
)
FEWER_CALLS = (
    Remedy("Run fewer, larger ops: torch.compile, fused or foreach optimizers, or a larger batch.", _TORCH, None, True),
    Remedy("Run fewer, larger ops: torch.compile, torch.inference_mode(), or a larger batch.", _TORCH),
    Remedy(f"Run fewer, larger ops: {_ONE_JIT}, or a larger batch.", _XLA),
    Remedy(f"Run fewer, larger ops: {_TF_FUNCTION}, or a larger batch.", _TENSORFLOW),
    Remedy("Run fewer, larger ops, or increase the batch size."),
)
SHORT_KERNELS = (
    Remedy(
        "Fuse them with torch.compile, launch them in CUDA graphs, or use foreach or fused optimizers.",
        _TORCH,
        _HAVE_GRAPHS,
        True,
    ),
    Remedy("Fuse them with torch.compile, or launch them in CUDA graphs.", _TORCH, _HAVE_GRAPHS),
    Remedy(
        "Fuse them: fused ops and optimizers of torch_npu (NpuFusedAdamW), or torchair's graph mode.",
        _TORCH,
        _NPUS,
        True,
    ),
    Remedy("Fuse them: fused ops of torch_npu, or torchair's graph mode.", _TORCH, _NPUS),
    Remedy("Fuse them with torch.compile, or use foreach or fused optimizers.", _TORCH, None, True),
    Remedy("Fuse them with torch.compile.", _TORCH),
    Remedy(f"Let XLA fuse them: {_ONE_JIT}.", _XLA),
    Remedy(f"Let XLA fuse them: {_TF_FUNCTION}.", _TENSORFLOW),
    Remedy(f"Fuse them: {_MS_GRAPH}.", _MINDSPORE),
    Remedy("Fuse them, or increase the batch size."),
)
LAUNCH_GAPS = (
    Remedy(
        "Run fewer, longer kernels: torch.compile, CUDA graphs (shorter gaps), foreach or fused ops, or a larger "
        "batch.",
        _TORCH,
        _HAVE_GRAPHS,
    ),
    Remedy("Run fewer, longer kernels: fused ops of torch_npu, or a larger batch.", _TORCH, _NPUS),
    Remedy("Run fewer, longer kernels: torch.compile, foreach or fused ops, or a larger batch.", _TORCH),
    Remedy(f"Run fewer, longer kernels: {_ONE_JIT}, or a larger batch.", _XLA),
    Remedy(f"Run fewer, longer kernels: {_TF_FUNCTION}, or a larger batch.", _TENSORFLOW),
    Remedy("Run fewer, longer kernels: fuse ops, or increase the batch size."),
)
# Part of a sentence: the synchronizing call that is not known by its op.
UNNEEDED_WAIT = (
    Remedy(
        "find the call in the trace and remove it from the step, such as torch.{type}.synchronize() around timers",
        _TORCH,
    ),
    Remedy("read results every N steps: block_until_ready() and values read in Python wait for the device", _XLA),
    Remedy("read results every N steps: .numpy() and printed values wait for the device", _TENSORFLOW),
    Remedy("find the call in the trace and remove it from the step"),
)
MEANWHILE = (
    Remedy(
        "Overlap this CPU work with the device: launch the next work first, or move it to another thread, to "
        "DataLoader workers or before the loop.",
        _TORCH,
    ),
    Remedy(
        "Overlap this CPU work with the device: launch the next work first, or move it to another thread or before "
        "the loop."
    ),
)
MORE_WARM_UP = (
    Remedy("Record after more warm-up steps; if the gaps remain, find their callers with with_stack=True.", _TORCH),
    Remedy("Record after more warm-up steps; if the gaps remain, find their callers."),
)
BALANCE = (
    Remedy(
        "Give every rank equal work, or start collectives earlier with async_op=True and wait only when the result is "
        "needed.",
        _TORCH,
    ),
    Remedy("Give every rank equal work, or start collectives earlier."),
)
RECORD_STACKS = (
    Remedy("Record again with with_stack=True to see what the CPU did.", _TORCH),
    Remedy("Record again with Python's calls to see what the CPU did."),
)
UNCACHED_ALLOCATION = (
    Remedy(
        "Turn the caching allocator on: unset PYTORCH_NO_CUDA_MEMORY_CACHING and PYTORCH_NO_HIP_MEMORY_CACHING, and do "
        "not call torch.{type}.memory.caching_allocator_enable(False)."
    ),
)
REUSED_MEMORY = (
    Remedy(
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, keep shapes constant, and do not call "
        "torch.{type}.empty_cache() in the loop.",
        _TORCH,
        _HAVE_GRAPHS,
    ),
    Remedy("Keep shapes constant, and do not call torch.{type}.empty_cache() in the loop.", _TORCH),
    Remedy("Leave XLA_PYTHON_CLIENT_PREALLOCATE on, and keep shapes constant.", _XLA),
    Remedy("Turn off memory growth (tf.config.experimental.set_memory_growth), and keep shapes constant.", _TENSORFLOW),
    Remedy("Allocate before the loop, and keep shapes constant."),
)
LOAD_SOONER = (
    Remedy(
        "Raise num_workers and prefetch_factor of the DataLoader, with persistent_workers=True (and pin_memory=True "
        "for a GPU), or make each sample cheaper to prepare.",
        _TORCH,
    ),
    Remedy(
        "Prefetch batches: more workers of Grain, or prefetch(tf.data.AUTOTUNE) and a parallel map of tf.data.",
        _XLA | _TENSORFLOW,
    ),
    Remedy("Load batches ahead in other processes, or make each sample cheaper to prepare."),
)
OVERLAP_COLLECTIVES = (
    Remedy(
        "Let XLA overlap them (--xla_gpu_enable_latency_hiding_scheduler=true on GPUs), or communicate less: other "
        "shardings, larger batches.",
        _XLA | _TENSORFLOW,
    ),
    Remedy("Start them earlier and compute meanwhile, or communicate less."),
)
LARGER_MESSAGES = (
    Remedy(
        "Combine them: larger buckets (bucket_cap_mb), flattened tensors, or one all_reduce of stacked metrics.",
        _TORCH,
        None,
        True,
    ),
    Remedy("Combine them: flattened tensors, or one all_reduce of stacked metrics.", _TORCH),
    Remedy("Combine them into fewer, larger messages."),
)
PIN_MEMORY = (
    Remedy(
        "Use DataLoader(pin_memory=True) and .to(device, non_blocking=True), and pin buffers that are copied back.",
        _TORCH,
    ),
    Remedy("Copy from and to pinned host memory."),
)
COPY_SOONER = (
    Remedy("Copy the next batch on its own torch.{type}.Stream during compute, and offload less.", _TORCH),
    Remedy("Copy the next batch during compute, and offload less."),
)
RECORD_SHAPES = (
    Remedy("Record with torch.profiler.profile(record_shapes=True).", _TORCH),
    Remedy("Record the shapes of inputs, where the profiler can."),
)
MARK_STEPS = (
    Remedy(
        "Call profiler.step() after each training step, or mark steps with record_function('ProfilerStep#1').",
        _TORCH,
        None,
        True,
    ),
    Remedy("Call profiler.step() after each step, or mark steps with record_function('ProfilerStep#1').", _TORCH),
    Remedy("Mark steps with jax.profiler.StepTraceAnnotation.", _XLA),
    Remedy("Mark steps with tf.profiler.experimental.Trace.", _TENSORFLOW),
    Remedy("Mark each step with a range named ProfilerStep#1, ProfilerStep#2, ..."),
)
RECORD_DEVICE = (
    Remedy(
        "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] (or XPU), let the profiler finish, "
        "copy the whole file, and look for CUPTI or roctracer errors in the log (another profiler, missing "
        "permissions).",
        _TORCH,
    ),
    Remedy("Record the device's work too, let the profiler finish, and copy the whole file."),
)
RECORD_HOST = (
    Remedy("Record with ProfilerActivity.CPU too, and with wait and warmup steps in torch.profiler.schedule.", _TORCH),
    Remedy("Record the CPU's ops and launches too, after some warm-up steps."),
)
WARM_UP = (
    Remedy("Record after the program has warmed up, with torch.profiler.schedule(wait=1, warmup=3, active=5).", _TORCH),
    Remedy("Record after the program has warmed up."),
)
COUNT_WORK = (
    # Nsight Compute counts on NVIDIA's GPUs alone.
    Remedy(
        "Count the rest with --counters: the roofline shows only work with an estimate.", None, frozenset({CUDA.kind})
    ),
    Remedy("Rely on rows with an estimate: counters of this device are not read."),
)
WAIT_LESS = (
    Remedy(
        "Look for kernels that the profiler lost, other processes on the device, and streams that wait for each other "
        "(wait_stream, events).",
        _TORCH,
    ),
    Remedy(
        "Look for kernels that the profiler lost, other processes on the device, and streams that wait for each other."
    ),
)
CHANNELS_LAST = (
    Remedy("Keep model and input in channels-last with .to(memory_format=torch.channels_last).", _TORCH),
    Remedy("Keep model and input in channels-last (NHWC)."),
)
FUSED_BATCH_NORM = (
    Remedy("Keep model and input in channels-last (torch.channels_last), or fuse it with torch.compile.", _TORCH),
    Remedy("Keep model and input in channels-last (NHWC)."),
)
FEWER_FILLS = (
    Remedy(
        "Free gradients with optimizer.zero_grad(set_to_none=True), and use torch.empty where everything is "
        "overwritten.",
        None,
        None,
        True,
    ),
    Remedy("Use torch.empty where everything is overwritten."),
)
FEWER_INDICES = (
    Remedy(
        "Index fewer or sorted rows, use F.embedding(sparse=True) or nn.EmbeddingBag for large tables or a one-hot "
        "matmul for small ones, and avoid boolean masks on the gradient's path.",
        None,
        None,
        True,
    ),
    Remedy("Index fewer or sorted rows, or use a one-hot matmul for small tables."),
)


def choose_remedy(remedies: Remedies, framework: str, device: str, *, trains: bool | None) -> str:
    """The text of the first row that serves; each table ends with one that serves all."""
    return next(row.how for row in remedies if row.serves(framework, device, trains=trains))
