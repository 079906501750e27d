"""Rules about work that moves more bytes than it must: what fusing, or leaving out, would save."""

from collections import defaultdict
from collections.abc import Iterator

from perfkit.analysis.findings.optimizers import ADAM_LIKE, fusing
from perfkit.analysis.findings.trace.change import (
    RECOMPUTED,
    Change,
    all_of,
    gone,
    leave_out,
    one_pass,
    scaled,
    to_roof,
)
from perfkit.analysis.findings.trace.thresholds import COMMON, INDEXED_EFFICIENCY, NOTABLE
from perfkit.analysis.findings.trace.view import (
    BEYOND_ROOF,
    CPU,
    Told,
    TraceView,
    above_roof_s,
    named,
    reaches_less,
    shapes,
    total_s,
)
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.op_class import OpClass, op_class
from perfkit.analysis.trace.roofline import LATENCY, MEMORY
from perfkit.cost.args import size_of

_OPTIMIZER = "optimizer"
_NORM_PARTS = ("aten::pow", "aten::mean", "aten::rsqrt", "aten::var", "aten::var_mean", "aten::square")
_SOFTMAX_PARTS = ("aten::exp", "aten::sum", "aten::div", "aten::sub", "aten::amax", "aten::max", "aten::logsumexp")
_FLOATS = frozenset(("fp64", "fp32", "fp16", "bf16"))


def optimizer_not_fused(view: TraceView) -> Iterator[Told]:
    """An update in many ops reads and writes the state once for each of them."""
    rows = [row for row in view.ops() if row.phase == _OPTIMIZER or row.name.startswith("aten::_foreach_")]
    classes = (OpClass.OPTIMIZER, OpClass.POINTWISE, OpClass.COPY)
    rows = [row for row in rows if op_class(row.name) in classes and not _clips(row)]
    took = total_s(rows)
    optimizers = view.trace.optimizers
    action = fusing(optimizers)
    if view.share(took) < NOTABLE or any("_fused_" in row.name for row in rows) or len(rows) < 2 or not action:
        return
    way = "foreach ops" if any("_foreach_" in row.name for row in rows) else "ops for one parameter at a time"
    least = _fused_s(view, rows) if ADAM_LIKE.issuperset(optimizers) else None
    floor = (
        "what they take beyond their own roofs; fusing wins more"
        if least is None
        else "all but the time to move the 28 bytes a parameter that one Adam update needs"
    )
    yield view.gain(
        "The optimizer is not fused",
        f"its update takes {view.took(took)} in {sum(row.calls for row in rows):,.0f} calls of {way}: {named(rows)}",
        action,
        above_roof_s(rows) if least is None else max(0.0, took - least),
        basis=floor,
        rows=rows,
        change=to_roof(rows, joins=True) if least is None else scaled(rows, min(1.0, least / took), joins=True),
    )


def _clips(row: OpRow) -> bool:
    """Whether gradients are scaled by a number that lies in a tensor, as clip_grad_norm_ does: no part of an update."""
    tensors = shapes(row)
    return row.name == "aten::_foreach_mul_" and bool(tensors) and not tensors[-1].dims


def _fused_s(view: TraceView, rows: list[OpRow]) -> float | None:
    """Least time of one fused fp32 Adam update: reads p, g, m, v and writes p, m, v, against addcdiv's four moves."""
    last = [row for row in rows if "addcdiv" in row.name and row.bytes]
    if not last or view.bandwidth is None:
        return None
    return sum(row.bytes or 0.0 for row in last) * 7 / 4 / view.bandwidth


def pointwise_chain(view: TraceView) -> Iterator[Told]:
    """Neighbouring ops bound by memory, which a compiler fuses so that data is read and written once."""
    classes = (OpClass.POINTWISE, OpClass.REDUCTION, OpClass.NORM, OpClass.SOFTMAX, OpClass.COPY)
    rows = [row for row in view.ops(*classes) if row.bound in (MEMORY, LATENCY) and row.phase != _OPTIMIZER]
    chains: dict[tuple[str, str, int], list[OpRow]] = defaultdict(list)
    for row in rows:
        numel = max((shape.numel for shape in shapes(row)), default=0)
        chains[row.phase, row.module, numel].append(row)
    chained = [chain for chain in chains.values() if len(chain) > 1 and all(row.attainable_s for row in chain)]
    members = [row for chain in chained for row in chain]
    won = sum(total_s(chain) - max(row.attainable_s or 0.0 for row in chain) for chain in chained)
    if view.share(total_s(members)) < COMMON:
        return
    small = total_s(row for row in members if row.bound == LATENCY)
    yield view.gain(
        "Small ops could be fused" if small > total_s(members) / 2 else "Ops bound by memory could be fused",
        f"ops on tensors of equal size take {view.took(total_s(members))} in "
        f"{sum(row.calls for row in members):,.0f} calls: {named(members)}",
        "Compile the model or its blocks with torch.compile.",
        won,
        basis="each group of one size in one phase and module as a single pass over its largest op's data",
        rows=members,
        change=all_of(_single_pass(chain) for chain in chained),
    )


def _single_pass(chain: list[OpRow]) -> Change:
    """The op with the most data does the work of all, at its roof."""
    largest = max(chain, key=lambda row: row.attainable_s or 0.0)
    return one_pass(chain, largest, min(1.0, (largest.attainable_s or 0.0) / largest.seconds))


def norm_in_parts(view: TraceView) -> Iterator[Told]:
    """A normalisation written as powers, means and roots instead of one op."""
    rows = [row for row in view.ops() if row.name in _NORM_PARTS]
    if not any(row.name == "aten::rsqrt" for row in rows) or view.share(total_s(rows)) < NOTABLE:
        return
    yield view.gain(
        "A normalisation is written as elementwise ops",
        f"its parts take {view.took(total_s(rows))}: {named(rows)}",
        "Use F.rms_norm or F.layer_norm, or torch.compile.",
        total_s(rows),
        basis="a fused norm computes them in the pass that scales its input",
        rows=rows,
        change=gone(rows, joins=True),
    )


def softmax_in_parts(view: TraceView) -> Iterator[Told]:
    """A softmax written as exponentials, sums and divisions instead of one op."""
    by_size: dict[tuple[str, int], list[OpRow]] = defaultdict(list)
    for row in view.ops():
        if row.name in _SOFTMAX_PARTS:
            by_size[row.phase, max((shape.numel for shape in shapes(row)), default=0)].append(row)
    written = [group for group in by_size.values() if {row.name for row in group} >= {"aten::exp", "aten::sum"}]
    rows = [row for group in written for row in group]
    if view.share(total_s(rows)) < NOTABLE:
        return
    yield view.gain(
        "A softmax is written as elementwise ops and sums",
        f"its parts take {view.took(total_s(rows))}: {named(rows)}",
        "Use F.softmax, F.log_softmax or F.cross_entropy, or torch.compile.",
        sum(total_s(group) - max(row.seconds for row in group) for group in written),
        basis="F.softmax reads and writes the tensor once, in no more time than the longest of them",
        rows=rows,
        change=all_of(one_pass(group, max(group, key=lambda row: row.seconds), 1.0) for group in written),
    )


def conversions(view: TraceView) -> Iterator[Told]:
    """Copies that only change the dtype, as autocast does for every weight and input."""
    # torch names some kernels for converting; others show it by two dtypes among their op's inputs, or by their bytes.
    by_kernel = {(kernel.op, kernel.shapes) for kernel in view.kernels("float16_copy_kernel")}
    rows = [
        row
        for row in view.ops(OpClass.COPY)
        if row.name in ("aten::_to_copy", "aten::to", "aten::copy_")
        and (
            (row.name, row.shapes) in by_kernel
            or len({shape.dtype for shape in shapes(row)} & _FLOATS) > 1
            or _changes_size(row)
        )
    ]
    took = total_s(rows)
    if view.share(took) >= NOTABLE:
        yield view.gain(
            "Tensors are converted between dtypes",
            f"copies that change the dtype take {view.took(took)} in {sum(row.calls for row in rows):,.0f} calls",
            "Keep the weights in the dtype they are used in (bf16 parameters, FSDP's MixedPrecisionPolicy), leave "
            "autocast's cache on (cache_enabled=True), or let torch.compile fuse the casts.",
            took,
            basis="none of them is needed",
            rows=rows,
            change=gone(rows, joins=True),
        )


def _changes_size(row: OpRow) -> bool:
    """Whether an op that makes a new tensor of one writes other sizes of elements than it reads."""
    tensors = shapes(row)
    if row.name != "aten::_to_copy" or len(tensors) != 1 or row.bytes is None or tensors[0].dtype not in _FLOATS:
        return False
    read = size_of(tensors[0].dtype)
    elements = tensors[0].numel * row.calls
    return elements > 0 and abs(row.bytes / elements - 2 * read) >= 1


def indexed_updates(view: TraceView) -> Iterator[Told]:
    """Gradients of embeddings and indexing, which add rows with atomics or after a sort."""
    rows = [
        row
        for row in view.ops(OpClass.INDEX)
        if any(word in row.name for word in ("backward", "index_put", "index_add", "scatter"))
        and reaches_less(row, INDEXED_EFFICIENCY)
    ]
    took = total_s(rows)
    if view.trace.device != CPU and view.share(took) >= NOTABLE:
        yield view.gain(
            "Indexed updates are slow: they collide, or sort first",
            f"they take {view.took(took)}: {named(rows)}",
            "Index fewer or sorted rows, use F.embedding(sparse=True) or nn.EmbeddingBag for large tables, or a "
            "one-hot product for small ones; avoid boolean masks on the gradient's path.",
            above_roof_s(rows),
            basis=BEYOND_ROOF,
            rows=rows,
            change=to_roof(rows),
        )


def zeroing(view: TraceView) -> Iterator[Told]:
    """Gradients filled with zeros, to be added to, instead of being written."""
    rows = [row for row in view.ops() if row.name in ("aten::zero_", "aten::_foreach_zero_")]
    took = total_s(rows)
    if view.share(took) >= NOTABLE:
        yield view.gain(
            "Tensors are filled with zeros",
            f"this takes {view.took(took)}: {named(rows)}",
            "Let optimizer.zero_grad(set_to_none=True) free gradients instead; torch.empty where all is overwritten.",
            took,
            basis="none of it is needed",
            rows=rows,
            change=gone(rows, joins=True),
        )


def recomputation(view: TraceView) -> Iterator[Told]:
    """Forward ops run again in backward, which activation checkpointing pays for memory."""
    again = view.trace.recompute
    if again is not None and view.share(again.seconds) >= NOTABLE:
        yield view.gain(
            "Checkpointing recomputes forward ops",
            f"{again.ops:,.0f} ops take {view.took(again.seconds)} a second time",
            "Where memory allows, checkpoint fewer blocks, or only what is cheap to recompute "
            "(create_selective_checkpoint_contexts).",
            again.seconds,
            basis="it costs the memory that checkpointing saved",
            scope=("recomputation",),
            change=leave_out(RECOMPUTED),
        )
