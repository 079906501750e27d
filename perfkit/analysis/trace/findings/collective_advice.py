"""Advice on exposed collectives, by their kind and by the wrapper that asks for them."""

from perfkit.analysis.model.fleet import DDP, FSDP1, FSDP2, GradientReductions, ParameterGathers
from perfkit.analysis.model.trace import CollectiveRow
from perfkit.analysis.trace.findings.trace_thresholds import SMALL_MESSAGE_BYTES, WHOLE_GATHER
from perfkit.analysis.trace.findings.trace_view import TraceView

SYNC_ONCE = {
    DDP: "Enter no_sync() around forward and backward of all microbatches but the last: DDP decides in forward, so "
    "around backward alone it has no effect.",
    FSDP1: "Enter no_sync() around forward and backward of all microbatches but the last; whole gradients then stay in "
    "memory.",
    FSDP2: "Call set_requires_gradient_sync(False) before the backward pass of all microbatches but the last; whole "
    "gradients then stay in memory.",
}
SHARD_BLOCKS = (
    "Call fully_shard() on each block before the root: blocks are gathered during the compute of others, and freed "
    "after it."
)
LARGER_BLOCKS = "Combine them: shard larger blocks, such as several layers in one fully_shard([...])."
_PREFETCH = {
    True: "Prefetch earlier (FSDPModule.set_modules_to_forward_prefetch, set_modules_to_backward_prefetch), shard "
    "larger blocks, or keep gathered parameters (reshard_after_forward=False).",
    False: "Prefetch earlier (FSDPModule.set_modules_to_forward_prefetch), shard larger blocks, or keep gathered "
    "parameters (reshard_after_forward=False).",
}
_HIDE_GRADIENTS = (
    "Tune the buckets with DistributedDataParallel(bucket_cap_mb=..., gradient_as_bucket_view=True), compress them "
    "with bf16_compress_hook, or accumulate with no_sync() around forward and backward."
)
_HIDE_SUMS = (
    "Split the model over fewer ranks, or halve the batch and compute one half while the other half communicates "
    "(async_op=True): without a backward pass these are sums of a tensor-parallel model, not gradients."
)
_EXCHANGE_EARLIER = (
    "Start exchanges early with async_op=True and overlap independent compute, such as another microbatch; send in "
    "bf16."
)
_SHARDED = ("allgather", "reducescatter")
_EXCHANGES = ("alltoall", "sendrecv", "send", "recv")


def is_reduced_each_microbatch(reductions: GradientReductions | None) -> bool:
    """True if several backward passes of an optimizer step reduce gradients."""
    return reductions is not None and reductions.reducing >= 2


def is_gathered_whole(gathers: ParameterGathers | None) -> bool:
    """True if one all-gather has almost all parameters, and is no small message."""
    return gathers is not None and gathers.largest_bytes >= max(SMALL_MESSAGE_BYTES, WHOLE_GATHER * gathers.all_bytes)


def advise_on_collectives(view: TraceView) -> str:
    """The advice for the collectives whose transfers are exposed most."""
    trains = view.trains is not False
    rows = sorted(view.trace.collectives, key=lambda row: row.exposed_waiting_s - row.exposed_s)
    called = _name_call(rows[0]) if rows else ""
    reductions = view.trace.reductions
    if rows and rows[0].of_gradients and reductions is not None and is_reduced_each_microbatch(reductions):
        return SYNC_ONCE[reductions.wrapper]
    if any(word in called for word in _SHARDED):
        return SHARD_BLOCKS if is_gathered_whole(view.trace.gathers) else _PREFETCH[trains]
    if any(word in called for word in _EXCHANGES):
        return _EXCHANGE_EARLIER
    return _HIDE_GRADIENTS if trains else _HIDE_SUMS


def _name_call(row: CollectiveRow) -> str:
    """What the program called: a backend may run another collective."""
    return (row.requested_kind or row.name).lower().replace("_", "")
