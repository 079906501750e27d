"""Details of GPU work in XLA's recordings: of CUDA and of ROCm, and what is none."""

import pytest

from perfkit.trace.kernel_geometry import parse_geometry
from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.xla_details import format_geometry, parse_moved_bytes


def test_geometries_of_cuda_and_rocm() -> None:
    cuda = "regs:32 static_shared:16 dynamic_shared:64 grid:8,2,1 block:128,1,1 occ_pct:62.5"
    assert parse_geometry(format_geometry(cuda))[:4] == (16, 128, 80, 32)
    rocm = " grid:4,1,1 block:64,1,1 private_mem:0 group_mem:512 occ_pct:0"
    assert parse_geometry(format_geometry(rocm))[:3] == (4, 64, 512)


@pytest.mark.parametrize(
    "details", ["", "kernel", "grid:1,1 block:1,1,1", "grid:8,1,1", "grid:99999999999,1,1 block:1,1,1"]
)
def test_what_states_no_grid_and_block(details: str) -> None:
    assert format_geometry(details) == b""


@pytest.mark.parametrize(
    ("details", "size"),
    [
        ("kind_src:device kind_dst:pinned size:4096 dest:0 async:1", 4096),
        ("kind:device num_bytes:64 async:1", 64),
        ("size:-3", NONE),
        ("size:9999999999999999999999", NONE),
        ("", NONE),
    ],
)
def test_sizes_of_copies_and_fills(details: str, size: int) -> None:
    assert parse_moved_bytes(details) == size
