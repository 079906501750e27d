"""What optimizers' kernels over lists worked on, told by the gradients of the backward pass."""

from pathlib import Path

import pytest

from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.analysis.trace.work.named_costs import count_elements_by_blocks
from perfkit.cost.kernels.multi_tensor import NAME_AND_GRID, SIZED
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace
from tests.unit.analysis.trace.work.test_work_analysis import CEILINGS

CHUNK = 65536
# 5 + 1 chunks of matrices, 1 + 1 of vectors.
SHAPES = ((CHUNK * 9 // 2, 1), (100, 10), (CHUNK,), (7,))
MATRICES = CHUNK * 9 // 2 + 1000
ALL = MATRICES + CHUNK + 7
FUNCTOR = "at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float"
MULTIPLY = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    f"TensorListMetadata<1>, {FUNCTOR}>(...)"
)


def backward(at: float, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> list[Event]:
    return [op("torch::autograd::AccumulateGrad", at + 2 * index, 1, [shape]) for index, shape in enumerate(shapes)]


def multiplied(at: float, *grids: int) -> list[Event]:
    """One op over a list whose shapes the trace lacks, and its launches."""
    events = [op("aten::_foreach_mul_", at, 20, [()], "TensorList")]
    for index, blocks in enumerate(grids):
        run = kernel(MULTIPLY, int(at) + index, at + 40 + 10 * index, 5)
        run["args"] |= {"grid": [blocks, 1, 1], "block": [512, 1, 1], "shared memory": 0}
        events += [launch(int(at) + index, at + 1 + index), run]
    return events


def trace(tmp_path: Path, *events: Event, steps: int = 1) -> Path:
    marks = [mark(f"ProfilerStep#{step}", 1000 * step, 1000) for step in range(steps)]
    return write_trace(tmp_path / "trace.json.gz", [*marks, *events])


def told(path: Path) -> dict[int, int]:
    return count_elements_by_blocks(read_ops(read_trace(path)))


def test_chunks_tell_which_list_it_is(tmp_path: Path) -> None:
    assert told(trace(tmp_path, *backward(0))) == {8: ALL, 6: MATRICES, 2: CHUNK + 7}


def test_accumulated_gradients_are_counted_once_for_each_pass(tmp_path: Path) -> None:
    found = told(trace(tmp_path, *backward(0), *backward(100), *backward(1000), *backward(1100), steps=2))
    assert (found[8], found[6]) == (ALL, MATRICES)
    assert found[16] == 2 * ALL


def test_as_many_chunks_of_other_sizes_tell_nothing(tmp_path: Path) -> None:
    other = ((CHUNK * 6, 1), (3, 3), (5,))
    assert 8 not in told(trace(tmp_path, *backward(0), *backward(1000, other), steps=2))


def test_the_launches_of_an_op_share_the_elements_of_its_list(tmp_path: Path) -> None:
    path = trace(tmp_path, *backward(100), *multiplied(300, 5, 3))
    (row,) = (row for row in analyze_trace(read_trace(path), CEILINGS).kernels if row.op == "aten::_foreach_mul_")
    assert row.flops == pytest.approx(ALL)
    assert row.bytes == pytest.approx(8 * ALL)  # read and written
    assert row.max_bytes is None
    assert row.cost_source == SIZED


def test_a_list_of_other_tensors_has_bounds_alone(tmp_path: Path) -> None:
    path = trace(tmp_path, *backward(100), *multiplied(300, 5, 4))
    (row,) = (row for row in analyze_trace(read_trace(path), CEILINGS).kernels if row.op == "aten::_foreach_mul_")
    assert row.max_bytes == 8 * 9 * CHUNK
    assert row.bytes is not None
    assert row.bytes < 8 * 9 * CHUNK
    assert row.cost_source == NAME_AND_GRID
