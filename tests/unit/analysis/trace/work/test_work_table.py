"""Tables know which pieces of work each of their rows is of."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.trace import op_tables
from perfkit.analysis.trace.rank_trace import analyze_with_details
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.gpu_traces import training_file


@pytest.mark.parametrize("most", [1, 5000])
def test_the_pieces_of_a_row_take_its_time(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_tables, "MOST_ROWS", most)
    analysed = analyze_with_details(read_ops(read_trace(training_file(tmp_path / "trace.json.gz"))), None)
    pieces, parts = analysed.engine.pieces, analysed.engine.parts
    for table in (analysed.kernels, analysed.ops, analysed.gemms):
        taken = np.bincount(table.row_of[table.row_of >= 0], pieces.busy_ns[table.row_of >= 0], len(table.rows))
        assert [row.seconds for row in table.rows] == pytest.approx(taken / 1e9 / parts)
    assert (analysed.kernels.row_of >= 0).all()
    assert (analysed.ops.row_of >= 0).all()
    assert any(row.kind == "rest" for row in analysed.kernels.rows) == (most == 1)
