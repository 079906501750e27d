"""What is in blocks of a GPU that its allocator did not split, by the op around them in a trace."""

from pathlib import Path

from perfkit.trace.memory.trace_allocations import read_trace_allocations
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, memory, op, write_trace

MIB = 1 << 20
WORKSPACE = 8_519_680  # that of cuBLAS
PRODUCT = [[2048, 8], [8, 1024]]  # 8 MiB in fp32


def shapes(folder: Path, *events: Event) -> list[str]:
    (found,) = read_trace_allocations(read_trace(write_trace(folder / "trace.json.gz", events)))
    return [found.get_text(found.shape, event) for event in range(len(found)) if found.size[event] > 0]


def gpu(time: float, address: int, size: int) -> Event:
    return memory(time, address, size, 1)


def test_a_block_that_was_not_split_holds_the_output(tmp_path: Path) -> None:
    call = op("aten::mm", 10, 9, [[384, 8], [8, 1024]])  # 1.5 MiB
    assert shapes(tmp_path, call, gpu(11, 7, 2 * MIB)) == ["[384, 1024]"]
    assert shapes(tmp_path, call, gpu(11, 7, 5 * MIB // 2)) == ["[384, 1024]"]
    assert shapes(tmp_path, call, gpu(11, 7, 5 * MIB // 2 + 512)) == [""]
    assert shapes(tmp_path, call, memory(11, 7, 2 * MIB)) == [""], "not on a CPU"


def test_a_workspace_of_nearly_its_size_is_no_output(tmp_path: Path) -> None:
    call = op("aten::mm", 10, 9, PRODUCT)
    assert shapes(tmp_path, call, gpu(11, 7, 8 * MIB), gpu(12, 8, WORKSPACE)) == ["[2048, 1024]", ""]
    assert shapes(tmp_path, call, gpu(11, 7, 17 * MIB // 2), gpu(12, 8, WORKSPACE)) == ["", ""], "either may be it"


def test_each_call_has_outputs_of_its_own(tmp_path: Path) -> None:
    calls = [op("aten::mm", 10, 9, PRODUCT), op("aten::mm", 20, 9, PRODUCT)]
    found = shapes(tmp_path, *calls, gpu(11, 7, 17 * MIB // 2), gpu(21, 8, WORKSPACE + 512))
    assert found == ["[2048, 1024]"] * 2


def test_an_op_makes_as_many_outputs_of_a_kind_as_its_rule_says(tmp_path: Path) -> None:
    tensor = [512, 1024]
    call = op("aten::_scaled_dot_product_flash_attention_backward", 10, 9, [tensor] * 4)
    found = shapes(tmp_path, call, *(gpu(11 + each, each, 5 * MIB // 2) for each in range(3)))
    assert found == ["[512, 1024]"] * 3
    found = shapes(tmp_path, call, *(gpu(11 + each, each, 5 * MIB // 2) for each in range(4)))
    assert found == [""] * 4
