"""Rules about an account of memory."""

from perfkit.analysis.findings.rule import GAIN, NOTE, WARNING, About, FindingKind, Rule
from perfkit.analysis.memory.findings import allocator, categories, failure, tensors
from perfkit.analysis.memory.findings.account_view import AccountView
from perfkit.analysis.memory.findings.memory_thresholds import FREE, IN_ONE_PIECE, KEPT, LARGE, NOTABLE, UNEXPLAINED
from perfkit.core.units import format_percent

_LARGE, _LEAST = f"at least {format_percent(LARGE, 0)}", f"at least {format_percent(NOTABLE, 0)}"
_BYTES = "Their bytes, or less if another moment of the step peaks nearly as high."


def _make_category(name: str, subject: str, advice: str) -> FindingKind:
    trigger = f"{subject} hold {_LARGE} of the peak, and removing them lowers it by {_LEAST}."
    return FindingKind(f"memory.{name}", GAIN, trigger, advice, _BYTES)


REQUEST_FAILED = FindingKind(
    "memory.request_failed",
    WARNING,
    "A failed request for memory was recorded.",
    "Reduce the largest category first.",
)
FRAGMENTED_REQUEST = FindingKind(
    "memory.fragmented_request",
    WARNING,
    "The failed request is smaller than all free reserved memory, but larger than each free piece.",
    "Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.",
)
GROWTH = FindingKind(
    "memory.growth",
    WARNING,
    "Each step leaves bytes behind ([growth between steps](memory.md#growth-between-steps)).",
    "Find what keeps tensors from step to step: append `loss.item()`, not `loss`, and empty lists and caches.",
)
LBFGS_HISTORY = FindingKind(
    "memory.lbfgs_history",
    NOTE,
    "The state of L-BFGS grows from step to step, up to `history_size` directions.",
    "Keep fewer directions with `LBFGS(history_size=10)`.",
)
SCORES = FindingKind(
    "memory.attention_scores",
    GAIN,
    f"Outputs of softmax and large blocks of their size hold {_LEAST} of the peak.",
    "Use `F.scaled_dot_product_attention`, which never writes the scores, or recompute attention in backward.",
    "Their bytes, which are also counted among activations and temporaries.",
)
LOGITS = FindingKind(
    "memory.logits",
    GAIN,
    f"Outputs of log-softmax and the loss, and large blocks of their size, hold {_LEAST} of the peak.",
    "Compute the loss in chunks or in a fused kernel.",
    "Their bytes.",
)
ACTIVATIONS = _make_category(
    "activations",
    "Activations other than logits",
    "Checkpoint blocks, compute in 16 bits, or offload activations to CPU memory.",
)
RECOMPUTED = _make_category("recomputed_activations", "Recomputed activations", "Checkpoint smaller blocks.")
OPTIMIZER_STATE = _make_category(
    "optimizer_state", "Optimizer states", "Shard them over ranks, offload them, or keep them in 8 bits."
)
GRADIENTS = _make_category(
    "gradients",
    "Gradients",
    "Shard them over ranks, update in backward, and free them before forward with `set_to_none=True`.",
)
PARAMETERS = _make_category("parameters", "Parameters", "Shard them over ranks, offload them, or keep them in bf16.")
AUTOCAST = _make_category(
    "autocast_copies",
    "Autocast weight copies",
    "Keep weights in bf16, or cast at every use with `torch.autocast(cache_enabled=False)`.",
)
UNSHARDED = _make_category(
    "unsharded_parameters",
    "Gathered parameters",
    "Free them after forward with `reshard_after_forward=True`, or shard smaller modules.",
)
BUFFERS = _make_category(
    "communication_buffers",
    "Communication buffers",
    "Make gradients views of the buckets with `gradient_as_bucket_view=True`, or use smaller buckets.",
)
TEMPORARIES = _make_category(
    "temporaries",
    "Temporaries other than logits",
    "Fuse ops with `torch.compile`, or use a fused optimizer if the update sets the peak.",
)
RETAINED = FindingKind(
    "memory.retained_outputs",
    NOTE,
    "Without a recorded backward pass, layer outputs retained to the end of forward (a key-value cache, hidden "
    f"states) hold {_LARGE} of the peak.",
    "Pass `use_cache=False` in training; in inference a cache is expected.",
)
FRAGMENTATION = FindingKind(
    "memory.fragmentation",
    GAIN,
    f"At least {format_percent(FREE, 0)} of the reserved memory is free at the peak, and less than "
    f"{format_percent(IN_ONE_PIECE, 0)} of that "
    "is in one piece.",
    "Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.",
    "The free bytes.",
)
UNUSED_RESERVE = FindingKind(
    "memory.unused_reserve",
    NOTE,
    f"At least {format_percent(KEPT, 0)} of the reserved memory is free at the peak, in large pieces.",
    "Call `torch.cuda.empty_cache()` once after a phase that needed more, or set `garbage_collection_threshold`.",
)
UNCATEGORIZED = FindingKind(
    "memory.uncategorized",
    NOTE,
    f"More than {format_percent(UNEXPLAINED, 0)} of the peak is unattributed.",
    "Start recording before the model is built, with stacks.",
)

RULES = (
    Rule(failure.find_failed_request, AccountView, About.MEMORY, (REQUEST_FAILED,)),
    Rule(allocator.find_request_without_one_piece, AccountView, About.MEMORY, (FRAGMENTED_REQUEST,)),
    Rule(failure.find_growth, AccountView, About.MEMORY, (GROWTH, LBFGS_HISTORY)),
    Rule(tensors.find_attention_scores, AccountView, About.MEMORY, (SCORES,)),
    Rule(tensors.find_logits, AccountView, About.MEMORY, (LOGITS,)),
    Rule(categories.find_activations, AccountView, About.MEMORY, (ACTIVATIONS,)),
    Rule(categories.find_recomputed_activations, AccountView, About.MEMORY, (RECOMPUTED,)),
    Rule(categories.find_optimizer_state, AccountView, About.MEMORY, (OPTIMIZER_STATE,)),
    Rule(categories.find_gradients, AccountView, About.MEMORY, (GRADIENTS,)),
    Rule(categories.find_parameters, AccountView, About.MEMORY, (PARAMETERS,)),
    Rule(categories.find_autocast_copies, AccountView, About.MEMORY, (AUTOCAST,)),
    Rule(categories.find_unsharded_parameters, AccountView, About.MEMORY, (UNSHARDED,)),
    Rule(categories.find_communication_buffers, AccountView, About.MEMORY, (BUFFERS,)),
    Rule(categories.find_temporaries, AccountView, About.MEMORY, (TEMPORARIES,)),
    Rule(categories.find_retained_outputs, AccountView, About.MEMORY, (RETAINED,)),
    Rule(allocator.find_fragmentation, AccountView, About.MEMORY, (FRAGMENTATION,)),
    Rule(allocator.find_unused_reserve, AccountView, About.MEMORY, (UNUSED_RESERVE,)),
    Rule(categories.find_uncategorized_memory, AccountView, About.MEMORY, (UNCATEGORIZED,)),
)
