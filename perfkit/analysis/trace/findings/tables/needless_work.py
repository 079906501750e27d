"""Rules about work that is not needed, or that another dtype or op does for less."""

from perfkit.analysis.findings.rule import GAIN, About, FindingKind, Rule
from perfkit.analysis.trace.findings import autograd_graph, gradient_scaling, needless_work, repeated_calls, slow_dtypes
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent

_LEAST, _COMMON = f"at least {format_percent(NOTABLE, 0)}", f"at least {format_percent(COMMON, 0)}"

FP64 = FindingKind(
    "dtype.fp64",
    GAIN,
    f"Ops with fp64 operands take {_LEAST} of the step.",
    "Keep tensors in fp32: `torch.from_numpy(array).float()`, and no `.double()`.",
    "Half of the time of these ops; at most all of it.",
)
SLOW_HALF = FindingKind(
    "dtype.slow_half",
    GAIN,
    f"On a CPU, matrix ops in fp16 take more than twice their time at the fp32 peak, {_LEAST} of the step.",
    "Use bf16 autocast or fp32.",
    "The time of these ops above the fp32 peak.",
)
REPEATED = FindingKind(
    "calls.repeated",
    GAIN,
    "On a CPU, an op is called 64 times or more per step with equal shapes in one phase, and such calls with their "
    f"Python take {_COMMON} of the step.",
    "Stack the samples, heads or items, and call each op once.",
    "The time of these calls, and of Python and dispatch.",
)
SMALL_BATCHES = FindingKind(
    "accumulation.small_batches",
    GAIN,
    "On a CPU, a loop accumulates gradients over several batches, and overhead that one batch has once takes "
    f"{_COMMON} of the step.",
    "Use one larger batch, or fewer microbatches, if it fits into memory.",
    "The time of forward and backward above the roofs and of Python, of all batches but one.",
)
ONE_HOT = FindingKind(
    "gemm.one_hot",
    GAIN,
    f"Matrix products with a one-hot operand take {_LEAST} of the step.",
    "Index the matrix: `F.embedding(indices, weight)`.",
    "The time of these products, and of making and converting the operand.",
)
SCATTERED = FindingKind(
    "gemm.scattered",
    GAIN,
    f"Matrix products with a matrix that an op of the step filled by index take {_LEAST} of the step.",
    "Add rows by index (`index_add`), or multiply with a sparse matrix.",
    "The time of these products, and of the ops on the matrix.",
)
INVERSE = FindingKind(
    "linalg.inverse",
    GAIN,
    f"Inverses of matrices take {_LEAST} of the step.",
    "Solve with `torch.linalg.solve`, or `cholesky` and `cholesky_solve`.",
    "The time of the inverses; at most that of all linear algebra with their matrices.",
)
RANDOM = FindingKind(
    "random.generation",
    GAIN,
    f"Drawing random numbers (not for dropout) takes {_COMMON} of the step.",
    "Draw only what is used.",
    "The time of these ops.",
)
METRICS = FindingKind(
    "step.metrics",
    GAIN,
    "Reductions, sorts and reads of values outside of forward, backward, update and loading take "
    f"{_COMMON} of the step.",
    "Compute metrics every N steps, in few ops.",
    "The time of these ops, and their part of Python and dispatch.",
)
ANOMALY = FindingKind(
    "autograd.anomaly_detection",
    GAIN,
    "Backward compares 8 gradients or more per step with NaN.",
    "Remove `torch.autograd.set_detect_anomaly(True)` after debugging.",
    "The time of these checks, and of Python and dispatch.",
)
UNUSED_GRAPH = FindingKind(
    "autograd.unused_graph",
    GAIN,
    f"Forward ops that record nodes of autograd's graph, none of which backward runs, take {_COMMON} of the step.",
    "Reuse the outputs of the first forward pass, or run under `torch.no_grad()`.",
    "The time of these ops.",
)
REPEATED_BACKWARD = FindingKind(
    "autograd.repeated_backward",
    GAIN,
    f"Backward ops of graph nodes that ran backward before take {_LEAST} of the step.",
    "Add the losses and call `backward()` once, without `retain_graph=True`.",
    "At least the time of these ops, at most with the time around them.",
)
CLIPPING = FindingKind(
    "clip.repeated",
    GAIN,
    f"`clip_grad_norm_` scales gradients twice or more per update, and all calls but one take {_LEAST} of the step.",
    "Clip once, and log the norm that `clip_grad_norm_` returns.",
    "The time of all calls but one, and their part of Python and dispatch.",
)
COPIES = FindingKind(
    "copy.materialized",
    GAIN,
    f"Copies within a device's memory that change no dtype take {_COMMON} of the step.",
    "Use views, write into one tensor instead of concatenating, and keep one memory format.",
    "The time of these copies.",
)

RULES = (
    Rule(slow_dtypes.find_double_precision, TraceView, About.STEP, (FP64,)),
    Rule(slow_dtypes.find_slow_half, TraceView, About.STEP, (SLOW_HALF,)),
    Rule(repeated_calls.find_repeated_calls, TraceView, About.STEP, (REPEATED,)),
    Rule(repeated_calls.find_small_microbatches, TraceView, About.STEP, (SMALL_BATCHES,)),
    Rule(needless_work.find_one_hot_products, TraceView, About.STEP, (ONE_HOT,)),
    Rule(needless_work.find_scattered_products, TraceView, About.STEP, (SCATTERED,)),
    Rule(needless_work.find_inverses, TraceView, About.STEP, (INVERSE,)),
    Rule(needless_work.find_random_generation, TraceView, About.STEP, (RANDOM,)),
    Rule(needless_work.find_extra_work, TraceView, About.STEP, (METRICS,)),
    Rule(needless_work.find_anomaly_checks, TraceView, About.STEP, (ANOMALY,)),
    Rule(autograd_graph.find_unused_graph, TraceView, About.STEP, (UNUSED_GRAPH,)),
    Rule(autograd_graph.find_repeated_backward, TraceView, About.STEP, (REPEATED_BACKWARD,)),
    Rule(gradient_scaling.find_repeated_clipping, TraceView, About.STEP, (CLIPPING,)),
    Rule(needless_work.find_copies, TraceView, About.STEP, (COPIES,)),
)
