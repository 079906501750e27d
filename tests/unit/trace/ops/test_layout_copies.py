"""Copies that convolutions make of operands in another memory format, in traces recorded here."""

from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from perfkit.trace.ops.layout_copies import find_layout_copies
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace


def _count_copies(tmp_path: Path, x: torch.Tensor) -> int:
    model = nn.Conv2d(8, 8, 3).to(memory_format=torch.channels_last)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler, torch.no_grad():
        model(x)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    return int(find_layout_copies(read_ops(read_trace(path))).sum())


def test_an_operand_in_another_format_is_copied(tmp_path: Path) -> None:
    x = torch.randn(2, 8, 16, 16)
    assert _count_copies(tmp_path, x) == 1
    assert _count_copies(tmp_path, x.contiguous(memory_format=torch.channels_last)) == 0
