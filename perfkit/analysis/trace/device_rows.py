"""The devices of a trace in rows: how busy each was, why it idled, and its utilization."""

from collections.abc import Sequence

import numpy as np

from perfkit.analysis.model.idle import CAUSES
from perfkit.analysis.model.launches import DeviceRow
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import DATA, IDLE, UNRECORDED
from perfkit.analysis.trace.idle.idle_pieces import IdleTime
from perfkit.analysis.trace.matrix_utilization import MatrixUtilization, compute_matrix_utilization
from perfkit.analysis.trace.time.intervals import Intervals, clip_intervals, measure_length
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis


def build_device_rows(
    engine: WorkAnalysis, names: Sequence[str], utilization: MatrixUtilization
) -> tuple[DeviceRow, ...]:
    """A row for each device that worked; none for a CPU. `names` are theirs, `utilization` is of all together."""
    if not engine.pieces.on_device:
        return ()
    return tuple(_build_device_row(engine, index, name, utilization) for index, name in enumerate(names))


def _build_device_row(engine: WorkAnalysis, index: int, name: str, utilization: MatrixUtilization) -> DeviceRow:
    work, parts, windows = engine.pieces, engine.parts, engine.windows.spans
    rows, devices = work.select_device(index), work.ops.devices
    used = utilization
    if len(devices) > 1:
        some_lost = engine.lost is not None and engine.lost.matters
        used = compute_matrix_utilization(
            work, engine.costs, engine.step_s, engine.roofs, some_lost=some_lost, device=index
        )
    split, idle, overlap = engine.devices[index]

    def measure_s(spans: Intervals) -> float:
        return measure_length(clip_intervals(spans, windows)) / 1e9 / parts

    return DeviceRow(
        number=devices.number[index],
        process=devices.process[index],
        name=name,
        critical=index == engine.critical_device,
        kernels=float(engine.within[rows].sum()) / parts,
        busy_s=measure_s(work.merge_spans(np.ones(len(work), np.bool_), rows)),
        compute_s=measure_s(work.computing_spans[index]),
        idle_s=split.sum_categories(DATA, *IDLE) / 1e9 / parts,
        time_split=split.compute_shares(parts=parts),
        idle=() if idle.time is None else _sum_causes(idle.time, parts),
        overlap=overlap,
        mfu=used.mfu,
        hardware_flops=used.hardware_flops,
    )


def _sum_causes(idle: IdleTime, parts: int) -> tuple[TimeShare, ...]:
    """The idle time within the steps by cause, as shares of all."""
    spent = np.bincount(idle.cause[idle.within], idle.length_ns[idle.within], len(CAUSES))
    known = [(cause, float(spent[number])) for number, cause in enumerate(CAUSES) if cause != UNRECORDED]
    whole = sum(ns for _, ns in known)
    return tuple(TimeShare(category=cause, seconds=ns / 1e9 / parts, share=ns / whole) for cause, ns in known if ns > 0)
