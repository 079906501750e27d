"""Rows that groups of work make in a report, with their place on the roofline."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.roofline.matmul_operands import describe_layout
from perfkit.analysis.trace.roofline.roofline import (
    COMPUTE,
    RooflineLimit,
)
from perfkit.analysis.trace.work.inferred_calls import AS_ELSEWHERE, INFERRED
from perfkit.analysis.trace.work.link_copies import find_link, parse_copy_kind
from perfkit.analysis.trace.work.roofline_groups import (
    NO_OP,
    Floats,
    RooflineGroups,
    count_parts,
    get_module,
    get_phase,
)
from perfkit.analysis.trace.work.shape_texts import show_shapes
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.core.units import format_percent
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.devices.ceilings.exceeded_ceilings import explain_exceeded
from perfkit.trace.model import NONE
from perfkit.trace.ops.kernels import is_compiled_kernel


def build_op_rows(
    placed: RooflineGroups, groups: NDArray[np.int64], step_s: float, *, of_kernels: bool
) -> tuple[OpRow, ...]:
    """Some groups, by their numbers, as rows of a table, per step.

    Args:
        step_s: the mean step.
        of_kernels: whether a group is of one kernel (and its op), or of one op.
    """
    return tuple(
        _build_op_row(placed, index, figures, step_s, of_kernels)
        for index, figures in zip(groups.tolist(), _list_figures(placed, groups, of_kernels=of_kernels), strict=True)
    )


class _Figures(NamedTuple):
    """One group's figures, per step but for those of single calls; None where not known."""

    calls: float
    seconds: float
    flops: float | None
    bytes: float | None
    most_flops: float | None
    most_bytes: float | None
    attainable_s: float | None
    wall_s: float | None
    critical_s: float | None
    least_s: float | None
    median_s: float | None
    p99_s: float | None
    blocks_per_sm: float | None
    sm_efficiency: float | None
    occupancy: float | None


def _list_figures(placed: RooflineGroups, groups: NDArray[np.int64], *, of_kernels: bool) -> Iterator[_Figures]:
    """The figures of some groups: from whole columns, since reading an array number by number is slow."""
    spread, load, parts = placed.spread, placed.load if of_kernels else None, count_parts(placed.pieces)
    summed = (
        placed.calls, placed.seconds, placed.flops, placed.bytes, placed.most_flops, placed.most_bytes,
        placed.limits.attainable_s, placed.wall_s, placed.critical_s,
    )  # fmt: skip
    of_calls = (spread.least_s, spread.median_s, spread.p99_s, *(load or (None, None, None)))
    return map(
        _Figures,
        *(_list_known(column, groups, parts) for column in summed),
        *(_list_known(column, groups, 1) for column in of_calls),
    )


def _list_known(column: Floats | None, groups: NDArray[np.int64], parts: int) -> list[Any]:
    """The values of some groups, divided by `parts`; None for NaN, and without a column."""
    if column is None:
        return [None] * len(groups)
    values = column[groups] / parts
    listed: list[float | None] = values.tolist()
    for place in np.flatnonzero(np.isnan(values)).tolist():
        listed[place] = None
    return listed


def _build_op_row(placed: RooflineGroups, index: int, figures: _Figures, step_s: float, of_kernels: bool) -> OpRow:
    pieces, names, first = placed.pieces, placed.pieces.ops.trace.names, int(placed.first[index])
    limit, seconds, wall, attainable = placed.limits[index], figures.seconds, figures.wall_s, figures.attainable_s
    flops, moved = figures.flops, figures.bytes
    kind, call, owner = int(pieces.kind[first]), int(pieces.call[first]), int(pieces.owner[first])
    unit, dtype = _get_precision(placed, index)
    label = int(pieces.label[first])
    op = "" if owner == NONE else names[label]
    if pieces.inferred[first]:
        op = pieces.ops.calls[call].call.name + INFERRED
    elif not of_kernels and owner == NONE and pieces.on_device and not is_compiled_kernel(names[label]):
        op = NO_OP
    name = names[int(pieces.name[first])] if of_kernels else op or names[label]
    intensity = flops / moved if flops is not None and moved and kind == WorkKind.WORK else None
    is_timed = seconds > 0 and not pieces.has_unknown_time[first]
    return OpRow(
        kind="kernel" if of_kernels else "op",
        name=name,
        phase=get_phase(pieces, first),
        module=placed.module_names[index] if of_kernels else get_module(pieces, first),
        shapes="" if call == NONE else show_shapes(pieces.ops.calls[call].call.args),
        calls=figures.calls,
        seconds=seconds,
        share=(seconds if wall is None else wall) / step_s if step_s > 0 else 0.0,
        flops=flops,
        bytes=moved,
        intensity=intensity,
        flops_per_s=flops / seconds if flops is not None and intensity is not None and is_timed else None,
        bound=limit.bound if kind == WorkKind.WORK else WorkKind(kind).name.lower(),
        attainable_s=attainable,
        efficiency=compute_roof_share(attainable, seconds),
        cost_source=_describe_source(placed, index, _find_formula(placed, first)),
        op=op if of_kernels and pieces.on_device else "",
        unit=unit,
        dtype=dtype,
        level=_get_level(kind, limit),
        above_roof=limit.above_roof,
        efficiency_reason=_explain_missing_share(placed, index, limit),
        max_flops=_get_upper_bound(figures.most_flops, flops),
        max_bytes=_get_upper_bound(figures.most_bytes, moved),
        is_estimate=bool(placed.estimated[index]),
        wall_s=wall,
        critical_s=figures.critical_s,
        layout="" if call == NONE or not pieces.has_strides else describe_layout(*pieces.ops.calls[call].call),
        all_calls=int(placed.spread.calls[index]),
        least_s=figures.least_s,
        median_s=figures.median_s,
        p99_s=figures.p99_s,
        blocks_per_sm=figures.blocks_per_sm,
        sm_efficiency=figures.sm_efficiency,
        occupancy=figures.occupancy,
        device=placed.get_roofs(index).device_name if len(placed.roofs.kinds) > 1 else "",
    )


def compute_roof_share(attainable_s: float | None, seconds: float) -> float | None:
    """Attainable over actual time, None without such a share.

    Work that a cache of unknown bandwidth served has no limit but the time it took, which says nothing. What is faster
    than its roof, by ever so little, has no roof.
    """
    if attainable_s is None or seconds == 0 or attainable_s >= seconds:
        return None
    return attainable_s / seconds


def _explain_missing_share(placed: RooflineGroups, index: int, limit: RooflineLimit) -> str:
    """The reason that a group with a known cost has no share of its roof; empty otherwise."""
    first = int(placed.first[index])
    if placed.pieces.has_unknown_time[first]:
        return "time unknown: a kernel overruns the next of its stream"
    if limit.attainable_s is not None and limit.attainable_s <= placed.seconds[index]:
        return ""
    roofs, kind, (unit, dtype) = placed.get_roofs(index), int(placed.pieces.kind[first]), _get_precision(placed, index)
    if limit.attainable_s is None:
        costed = kind == WorkKind.WORK and unit and placed.flops[index] > 0
        lacking = costed and roofs.compute(ComputeUnit(unit), dtype) is None
        return roofs.explain_missing(dtype) if lacking else ""
    ceiling = roofs.find_bandwidth(CeilingLevel(limit.level))
    if kind == WorkKind.COPY:
        ceiling = find_link(parse_copy_kind(placed.pieces.ops.trace.names[int(placed.pieces.name[first])]), roofs)
    elif limit.bound == COMPUTE and unit:
        ceiling = roofs.compute(ComputeUnit(unit), dtype)
    return "" if ceiling is None else explain_exceeded(ceiling)


def _get_upper_bound(most: float | None, least: float | None) -> float | None:
    """The upper bound of a group's cost, None where it equals the lower bound, except for rounding."""
    return most if most is not None and least is not None and most > least * (1 + 1e-9) else None


def _find_formula(placed: RooflineGroups, row: int) -> str:
    """The formula that a piece's cost comes from, empty where none models it."""
    pieces = placed.pieces
    call = int(pieces.call[row])
    if call == NONE:
        own = placed.costs.by_name
        return "" if own.number[row] == NONE else own.costs[int(own.number[row])].source
    source = pieces.ops.calls[call].cost.source
    return f"{source}, {AS_ELSEWHERE}" if pieces.inferred[row] else source


def _describe_source(placed: RooflineGroups, index: int, formula: str) -> str:
    """The source of a group's FLOPs and bytes: hardware counters for all or some of its pieces, or a formula."""
    share = placed.counted_share[index]
    if share == 0:
        return formula
    return (
        "counted"
        if share == 1
        else f"counted for {format_percent(share, 0)} of its kernels, else {formula or 'unknown'}"
    )


def _get_level(kind: int, limit: RooflineLimit) -> str:
    if kind == WorkKind.COPY:
        return str(CeilingLevel.HOST_LINK)
    return "" if limit.attainable_s is None else str(limit.level)


def _get_precision(placed: RooflineGroups, index: int) -> tuple[str, str]:
    code = int(placed.precision[index])
    if code == NONE:
        return "", ""
    unit, dtype = placed.costs.precisions[code]
    return str(unit), dtype
