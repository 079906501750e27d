"""The tree of modules and the phases of a device trace without steps; times in microseconds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.trace.rank_trace import analyze_ops
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import kernel, launch, op, write_trace

SQUARE = (100, 100)


def test_every_level_holds_all_beneath_it(tmp_path: Path) -> None:
    events = []
    for number, (name, duration) in enumerate([("mm", 30), ("mm", 20), ("relu", 10), ("add", 5)], start=1):
        at = 100 * number
        events += [
            op(f"aten::{name}", at, 10, [SQUARE, SQUARE]),
            launch(number, at + 2),
            kernel(name, number, at + 20, duration),
        ]
    ops = read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events)))
    ops = replace(ops, modules=["Net_0/Block_0/Linear_0", "Net_0/Block_1", "Net_0"], module=np.asarray([0, 1, 2, NONE]))
    found = analyze_ops(ops, None)
    rows = {row.module: row for row in found.modules}
    assert {path: round(row.seconds * 1e6) for path, row in rows.items()} == {
        "Net_0": 60,
        "Net_0/Block_0": 30,
        "Net_0/Block_0/Linear_0": 30,
        "Net_0/Block_1": 20,
    }
    assert rows["Net_0/Block_0/Linear_0"].name == "Linear_0"
    assert rows["Net_0"].flops == 2 * 2e6 + 1e4
    assert rows["Net_0"].calls == 3.0
    assert rows["Net_0"].share == pytest.approx(60 / 325)
