"""What collectives exchanged, by what a trace holds of them."""

from pathlib import Path
from typing import Any

import numpy as np

from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.collective_messages import CollectiveMessages
from perfkit.analysis.trace.work.work_analysis import analyze_work
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, op, write_trace

RECORDED = {"Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 400, "Group size": 4}


def exchanged(tmp_path: Path, events: list[Event]) -> CollectiveMessages:
    ops = read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events)))
    return analyze_work(ops, Roofs(None, "cuda")).exchanged


def with_args(event: Event, **args: Any) -> Event:
    return {**event, "args": {**event["args"], **args}}


def test_recorded_around_the_launch(tmp_path: Path) -> None:
    events = [
        op("c10d::_allgather_base_", 0, 20),
        with_args(op("record_param_comms", 2, 10), **RECORDED, dtype="BFloat16"),
        launch(1, 5),
        kernel("ncclDevKernel_AllGather_RING_LL", 1, 30, 10),
    ]
    found = exchanged(tmp_path, events)
    assert found.get_message_bytes().tolist() == [800.0]
    assert found.table[int(found.which[0])].group_size == 4


def test_by_the_inputs_of_the_op_where_nothing_was_recorded(tmp_path: Path) -> None:
    events = [
        op("c10d::_allgather_base_", 0, 20, [(400,), (100,)], "c10::BFloat16"),
        launch(1, 5),
        kernel("ncclKernel_AllGather_RING_LL_Sum_int8_t", 1, 30, 10),
        op("c10d::allreduce_", 50, 20),  # a list without a dtype or shapes
        launch(2, 55),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 2, 80, 10),
        op("aten::mm", 100, 10),
        launch(3, 105),
        kernel("gemm", 3, 120, 10),
    ]
    found = exchanged(tmp_path, events)
    assert found.get_message_bytes()[0] == 800.0
    assert found.table[int(found.which[0])].group_size == NONE  # not told by the inputs
    assert np.isnan(found.get_message_bytes()[1:]).all()
    assert found.which[2] == NONE
