"""Texts of NVTX ranges: torch's ops, and everything else."""

import pytest

from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.nvtx_ranges import OP, RANGE, parse_range


def test_an_op_with_shapes() -> None:
    text = "aten::addmm, seq = 5, op_id = 7, sizes = [[4], [2, 3], [3, 4], [], []], input_op_ids = [(5,0), (6,0)]"
    found = parse_range(text)
    assert (found.category, found.name, found.sequence) == (OP, "aten::addmm", 5)
    assert found.dims == b"[[4], [2, 3], [3, 4], [], []]"
    assert found.types == b'["Tensor", "Tensor", "Tensor", "", ""]'


@pytest.mark.parametrize(
    ("text", "category", "name", "sequence"),
    [
        ("aten::relu", OP, "aten::relu", NONE),
        ("AddmmBackward0, seq = 9, op_id = 31", OP, "AddmmBackward0", 9),
        ("autograd::engine: MulBackward0, seq = x", OP, "autograd::engine: MulBackward0", NONE),
        ("forward", RANGE, "forward", NONE),
        ("ProfilerStep#3", RANGE, "ProfilerStep#3", NONE),
        ("layer, size = 3", RANGE, "layer, size = 3", NONE),
        ("std::vector", RANGE, "std::vector", NONE),
        ("", RANGE, "", NONE),
    ],
)  # fmt: skip
def test_other_texts(text: str, category: str, name: str, sequence: int) -> None:
    found = parse_range(text)
    assert (found.category, found.name, found.sequence, found.types) == (category, name, sequence, b"")


@pytest.mark.parametrize("sizes", ["[[1, 2]", "[1, 2]", '[["a"]]', "{}", "[[1.5]]", "[" * 20_000])
def test_sizes_that_are_none(sizes: str) -> None:
    found = parse_range(f"aten::mm, seq = 1, sizes = {sizes}")
    assert (found.name, found.sequence, found.dims) == ("aten::mm", 1, b"")
