"""Rules about excess memory traffic, and the savings from fusing or removing it."""

from collections import defaultdict
from collections.abc import Iterator

from perfkit.analysis.findings.change import (
    Change,
    fuse_rows,
    join_changes,
    raise_to_roof,
    remove_rows,
    scale_rows,
)
from perfkit.analysis.findings.optimizer_steps import ADAM_LIKE, advise_fused_update
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.remedies import FEWER_FILLS, FEWER_INDICES
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, INDEXED_EFFICIENCY, NOTABLE
from perfkit.analysis.trace.findings.trace_view import (
    BEYOND_ROOF,
    TraceView,
    format_call_count,
    is_below_roof_share,
    list_kernels,
    parse_shapes,
    sum_above_roof_s,
    sum_seconds,
)
from perfkit.analysis.trace.roofline.roofline import LATENCY, MEMORY
from perfkit.cost.calls.args import get_element_size
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.devices.accelerator import is_cpu

_OPTIMIZER = "optimizer"
_LIMITS = ("aten::_foreach_clamp_min_", "aten::_foreach_clamp_max_")
_NORM_PARTS = ("aten::pow", "aten::mean", "aten::rsqrt", "aten::var", "aten::var_mean", "aten::square")
_SOFTMAX_PARTS = ("aten::exp", "aten::sum", "aten::div", "aten::sub", "aten::amax", "aten::max", "aten::logsumexp")
# Gradients that are added up are those of other ops, too.
_SOFTMAX_ENDS = ("aten::add_", "aten::add")
_FLOATS = frozenset(("fp64", "fp32", "fp16", "bf16"))


def find_unfused_optimizer(view: TraceView) -> Iterator[RuleResult]:
    """An update in many ops reads and writes the state once for each of them."""
    ops = view.select_ops()
    rows = [row for row in ops if row.phase == _OPTIMIZER]
    rows = rows or [row for row in ops if row.name.startswith("aten::_foreach_")]  # no phases are marked
    classes = (OpClass.OPTIMIZER, OpClass.POINTWISE, OpClass.COPY)
    rows = [row for row in rows if classify_op(row.name) in classes and not _is_clipping(row)]
    took = sum_seconds(rows)
    optimizers = view.trace.optimizers
    action = advise_fused_update(optimizers)
    if view.get_share(took) < NOTABLE or any("_fused_" in row.name for row in rows) or len(rows) < 2 or not action:
        return
    kind = "foreach" if any("_foreach_" in row.name for row in rows) else "per-parameter"
    least = _get_fused_s(view, rows) if ADAM_LIKE.issuperset(optimizers) else None
    basis = (
        "time above each op's roof; fusing saves more"
        if least is None
        else "assumes one pass over the 28 bytes per parameter of an Adam update"
    )
    yield view.build_gain(
        "optimizer.unfused",
        "Optimizer is not fused",
        f"update takes {view.show_work_time(took)} in {format_call_count(rows, kind)}: {list_kernels(rows)}",
        action,
        sum_above_roof_s(rows) if least is None else max(0.0, took - least),
        basis=basis,
        rows=rows,
        change=raise_to_roof(rows, joins=True)
        if least is None
        else scale_rows(rows, min(1.0, least / took), joins=True),
        removable_s=took,  # weights that fit into a cache are updated faster than memory is
        figures={"time_s": took, "calls": sum(row.calls for row in rows)},
    )


def _is_clipping(row: OpRow) -> bool:
    """True if gradients are scaled by a 0-dim tensor, as in clip_grad_norm_, or limited before the update, as in
    clip_grad_value_; neither is part of an update."""
    if row.name in _LIMITS:
        return row.phase != _OPTIMIZER
    tensors = parse_shapes(row)
    return row.name == "aten::_foreach_mul_" and bool(tensors) and not tensors[-1].dims


def _get_fused_s(view: TraceView, rows: list[OpRow]) -> float | None:
    """Least time of one fused fp32 Adam update: reads p, g, m, v and writes p, m, v, against addcdiv's four moves."""
    last = [row for row in rows if "addcdiv" in row.name and row.bytes]
    if not last or view.bandwidth is None:
        return None
    return sum(row.bytes or 0.0 for row in last) * 7 / 4 / view.bandwidth


def find_unfused_elementwise(view: TraceView) -> Iterator[RuleResult]:
    """Neighboring memory-bound ops, which a compiler fuses so that data is read and written once."""
    classes = (OpClass.POINTWISE, OpClass.REDUCTION, OpClass.NORM, OpClass.SOFTMAX, OpClass.COPY)
    rows = [row for row in view.select_ops(*classes) if row.bound in (MEMORY, LATENCY) and row.phase != _OPTIMIZER]
    chains: dict[tuple[str, str, int], list[OpRow]] = defaultdict(list)
    for row in rows:
        numel = max((shape.numel for shape in parse_shapes(row)), default=0)
        chains[row.phase, row.module, numel].append(row)
    chained = [chain for chain in chains.values() if len(chain) > 1 and all(row.attainable_s for row in chain)]
    members = [row for chain in chained for row in chain]
    saved_s = sum(sum_seconds(chain) - max(row.attainable_s or 0.0 for row in chain) for chain in chained)
    if view.get_share(sum_seconds(members)) < COMMON:
        return
    small = sum_seconds(row for row in members if row.bound == LATENCY)
    yield view.build_gain(
        "fusion.elementwise",
        "Small ops can be fused" if small > sum_seconds(members) / 2 else "Memory-bound ops can be fused",
        f"ops on equal-size tensors take {view.show_work_time(sum_seconds(members))} in "
        f"{format_call_count(members)}: {list_kernels(members)}",
        "Compile the model or its blocks with torch.compile.",
        saved_s,
        basis="assumes one pass over the largest op's data per group of equal size, phase and module",
        rows=members,
        change=join_changes(_fuse_chain(chain) for chain in chained),
        figures={"time_s": sum_seconds(members), "calls": sum(row.calls for row in members)},
    )


def _fuse_chain(chain: list[OpRow]) -> Change:
    """The op with the most data does the work of all, at its roof."""
    largest = max(chain, key=lambda row: row.attainable_s or 0.0)
    return fuse_rows(chain, largest, min(1.0, (largest.attainable_s or 0.0) / largest.seconds))


def find_norm_in_parts(view: TraceView) -> Iterator[RuleResult]:
    """A normalization written as powers, means and roots instead of one op."""
    rows = [row for row in view.select_ops() if row.name in _NORM_PARTS]
    if not any(row.name == "aten::rsqrt" for row in rows) or view.get_share(sum_seconds(rows)) < NOTABLE:
        return
    # Its differences, products and gradients are of its size, and so may be ops of others.
    sizes = {shape.numel for row in rows for shape in parse_shapes(row)}
    related = [
        row
        for row in view.select_ops(OpClass.POINTWISE, OpClass.REDUCTION)
        if row not in rows and row.phase in ("forward", "backward") and any(s.numel in sizes for s in parse_shapes(row))
    ]
    yield view.build_gain(
        "fusion.norm",
        "Normalization is written as elementwise ops",
        f"its parts take {view.show_work_time(sum_seconds(rows))}: {list_kernels(rows)}",
        "Use F.rms_norm, F.layer_norm or torch.compile.",
        sum_seconds(rows) + sum_seconds(related),
        basis="assumes that a fused norm computes them while scaling its input; at most all ops of their sizes",
        rows=rows,
        change=remove_rows(rows, joins=True),
        removable_s=sum_seconds(rows) + sum_seconds(related),
        figures={"time_s": sum_seconds(rows)},
    )


def find_softmax_in_parts(view: TraceView) -> Iterator[RuleResult]:
    """A softmax written as exponentials, sums and divisions instead of one op."""
    by_size: dict[tuple[str, int], list[OpRow]] = defaultdict(list)
    for row in view.select_ops():
        if row.name in _SOFTMAX_PARTS:
            by_size[row.phase, max((shape.numel for shape in parse_shapes(row)), default=0)].append(row)
    forward = {
        key: group for key, group in by_size.items() if {row.name for row in group} >= {"aten::exp", "aten::sum"}
    }
    softmaxes = [
        *forward.values(),
        *_list_backward(
            view, {size for phase, size in forward if phase == "forward" and ("backward", size) not in forward}
        ),
    ]
    rows = [row for group in softmaxes for row in group]
    if view.get_share(sum_seconds(rows)) < NOTABLE:
        return
    yield view.build_gain(
        "fusion.softmax",
        "Softmax is written as elementwise ops and sums",
        f"its parts take {view.show_work_time(sum_seconds(rows))}: {list_kernels(rows)}",
        "Use F.softmax, F.log_softmax, F.cross_entropy or torch.compile.",
        sum(sum_seconds(group) - max(row.seconds for row in group) for group in softmaxes),
        basis="assumes that F.softmax takes as long as the longest of these ops",
        rows=rows,
        change=join_changes(fuse_rows(group, max(group, key=lambda row: row.seconds), 1.0) for group in softmaxes),
        figures={"time_s": sum_seconds(rows)},
    )


def _list_backward(view: TraceView, sizes: set[int]) -> list[list[OpRow]]:
    """The backward ops of softmaxes of these sizes, which one op computes for F.softmax: a list for each size."""
    groups: dict[int, list[OpRow]] = defaultdict(list)
    for row in view.select_ops(OpClass.POINTWISE, OpClass.REDUCTION):
        size = max((shape.numel for shape in parse_shapes(row)), default=0)
        if row.phase == "backward" and size in sizes and row.name not in _SOFTMAX_ENDS:
            groups[size].append(row)
    return list(groups.values())


def find_dtype_conversions(view: TraceView) -> Iterator[RuleResult]:
    """Copies that only change the dtype, as autocast does for every weight and input."""
    # torch names some kernels for converting; others show it by two dtypes among their op's inputs, or by their bytes.
    by_kernel = {(kernel.op, kernel.shapes) for kernel in view.select_kernels("float16_copy_kernel")}
    rows = [
        row
        for row in view.select_ops(OpClass.COPY)
        if row.name in ("aten::_to_copy", "aten::to", "aten::copy_")
        and (
            (row.name, row.shapes) in by_kernel
            or len({shape.dtype for shape in parse_shapes(row)} & _FLOATS) > 1
            or _is_size_changing(row)
        )
    ]
    took = sum_seconds(rows)
    if view.get_share(took) >= NOTABLE:
        yield view.build_gain(
            "dtype.conversions",
            "Copies convert tensors between dtypes",
            f"copies that change the dtype take {view.show_work_time(took)} in {format_call_count(rows)}",
            "Keep weights in the dtype they are used in (bf16 parameters, FSDP's MixedPrecisionPolicy), leave "
            "autocast's cache on (cache_enabled=True), or fuse the casts with torch.compile.",
            took,
            basis="assumes that no conversion is needed",
            rows=rows,
            change=remove_rows(rows, joins=True),
            figures={"time_s": took, "calls": sum(row.calls for row in rows)},
        )


def _is_size_changing(row: OpRow) -> bool:
    """True if an op's output has a different element size than its input."""
    tensors = parse_shapes(row)
    if row.name != "aten::_to_copy" or len(tensors) != 1 or row.bytes is None or tensors[0].dtype not in _FLOATS:
        return False
    read = get_element_size(tensors[0].dtype)
    elements = tensors[0].numel * row.calls
    return elements > 0 and abs(row.bytes / elements - 2 * read) >= 1


def find_slow_indexed_updates(view: TraceView) -> Iterator[RuleResult]:
    """Gradients of embeddings and indexing, which add rows with atomics or after a sort."""
    rows = [
        row
        for row in view.select_ops(OpClass.INDEX)
        if any(word in row.name for word in ("backward", "index_put", "index_add", "scatter"))
        and is_below_roof_share(row, INDEXED_EFFICIENCY)
    ]
    took = sum_seconds(rows)
    if not is_cpu(view.trace.device) and view.get_share(took) >= NOTABLE:
        yield view.build_gain(
            "indexing.slow_updates",
            "Slow indexed updates (atomics or sorting)",
            f"these ops take {view.show_work_time(took)}: {list_kernels(rows)}",
            view.advise(FEWER_INDICES),
            sum_above_roof_s(rows),
            basis=BEYOND_ROOF,
            rows=rows,
            change=raise_to_roof(rows),
            figures={"time_s": took},
        )


def find_zero_fills(view: TraceView) -> Iterator[RuleResult]:
    """Gradients that are filled with zeros and added to, instead of written."""
    rows = [row for row in view.select_ops() if row.name in ("aten::zero_", "aten::_foreach_zero_")]
    took = sum_seconds(rows)
    if view.get_share(took) >= NOTABLE:
        yield view.build_gain(
            "fill.zeros",
            "Zero-filling of tensors",
            f"fills take {view.show_work_time(took)}: {list_kernels(rows)}",
            view.advise(FEWER_FILLS),
            took,
            basis="assumes that no fill is needed",
            rows=rows,
            change=remove_rows(rows, joins=True),
            figures={"time_s": took},
        )
