"""Rules about work that moves more bytes than it must."""

from perfkit.analysis.findings.rule import GAIN, About, FindingKind, Rule
from perfkit.analysis.trace.findings import autograd_graph, memory_bound
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, INDEXED_EFFICIENCY, NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent

_LEAST, _COMMON = f"at least {format_percent(NOTABLE, 0)}", f"at least {format_percent(COMMON, 0)}"

OPTIMIZER = FindingKind(
    "optimizer.unfused",
    GAIN,
    f"Optimizer updates in foreach or per-parameter ops, without a `_fused_` op, take {_LEAST} of the step (gradient "
    "clipping and LBFGS excluded).",
    "Build Adam, AdamW, SGD or Adagrad with `fused=True`, and compile the step of others with `torch.compile`.",
    "The update's time minus the time to move the 28 bytes per parameter of one fp32 Adam update; for other "
    "optimizers, the time above the roofs.",
    techniques=("optim:use=fused",),
)
ELEMENTWISE = FindingKind(
    "fusion.elementwise",
    GAIN,
    "Memory-bound or small elementwise, norm, softmax, reduction and copy ops on tensors of one size, in one phase "
    f"and module, take {_COMMON} of the step.",
    "Compile the model or its blocks with `torch.compile`.",
    "The time of each group minus one pass over the data of its largest op.",
    techniques=("compile",),
)
NORM = FindingKind(
    "fusion.norm",
    GAIN,
    f"A normalization is written as `rsqrt` with `pow`, `mean` or `var`, and takes {_LEAST} of the step.",
    "Use `F.rms_norm`, `F.layer_norm` or `torch.compile`.",
    "The time of these ops; at most of all elementwise ops and reductions of their sizes.",
    techniques=("compile",),
)
SOFTMAX = FindingKind(
    "fusion.softmax",
    GAIN,
    f"A softmax is written as `exp` and `sum` of one size with `div`, `sub` or `amax`, and takes {_LEAST} of the step.",
    "Use `F.softmax`, `F.log_softmax`, `F.cross_entropy` or `torch.compile`.",
    "The time of these ops and of their backward ops, except the longest of each.",
    techniques=("compile",),
)
CONVERSIONS = FindingKind(
    "dtype.conversions",
    GAIN,
    f"Copies that change the dtype take {_LEAST} of the step.",
    "Keep weights in the dtype they are used in, leave autocast's cache on, or fuse the casts with `torch.compile`.",
    "The time of these copies.",
    techniques=("bf16", "compile"),
)
INDEXED = FindingKind(
    "indexing.slow_updates",
    GAIN,
    "On a GPU, gradients of embeddings and indexing, scatter and put ops below "
    f"{format_percent(INDEXED_EFFICIENCY, 0)} of their roof take {_LEAST} of the step.",
    "Index fewer or sorted rows, or use `F.embedding(sparse=True)` or `nn.EmbeddingBag` for large tables.",
    "The time of these ops above their roofs.",
)
ZEROS = FindingKind(
    "fill.zeros",
    GAIN,
    f"`zero_` and `_foreach_zero_` take {_LEAST} of the step.",
    "Free gradients with `optimizer.zero_grad(set_to_none=True)`.",
    "The time of these ops.",
)
RECOMPUTE = FindingKind(
    "checkpointing.recompute",
    GAIN,
    f"Forward ops recomputed in backward take {_LEAST} of the step.",
    "Checkpoint fewer blocks where memory allows, or only cheap ops.",
    "At least the time of these ops, at most with the time around them; costs the memory that checkpointing saves.",
    techniques=("ckpt:mode=selective", "ckpt:skip=1"),
)

RULES = (
    Rule(memory_bound.find_unfused_optimizer, TraceView, About.STEP, (OPTIMIZER,)),
    Rule(memory_bound.find_unfused_elementwise, TraceView, About.STEP, (ELEMENTWISE,)),
    Rule(memory_bound.find_norm_in_parts, TraceView, About.STEP, (NORM,)),
    Rule(memory_bound.find_softmax_in_parts, TraceView, About.STEP, (SOFTMAX,)),
    Rule(memory_bound.find_dtype_conversions, TraceView, About.STEP, (CONVERSIONS,)),
    Rule(memory_bound.find_slow_indexed_updates, TraceView, About.STEP, (INDEXED,)),
    Rule(memory_bound.find_zero_fills, TraceView, About.STEP, (ZEROS,)),
    Rule(autograd_graph.find_recomputation, TraceView, About.STEP, (RECOMPUTE,)),
)
