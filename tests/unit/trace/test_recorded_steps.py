"""Real traces, recorded here: costs summed over the trace equal the live count of the same step, exactly."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES, STEP_MARK
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.live_flops import count_flops
from perfkit.trace.model import NONE
from perfkit.trace.ops.call_counts import count_op_calls
from perfkit.trace.ops.ops import OpRole, Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import work_ns

Step = Callable[[int], None]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.qkv = nn.Embedding(100, 32), nn.LayerNorm(32), nn.Linear(32, 96)
        self.out, self.head = nn.Linear(32, 32, bias=False), nn.Linear(32, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        q, k, v = (each.unflatten(-1, (4, 8)).transpose(1, 2) for each in self.qkv(self.norm(h)).chunk(3, -1))
        h = h + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        logits: torch.Tensor = self.head(F.dropout(F.rms_norm(F.gelu(h), (32,)), 0.1))
        return logits


def attention_step() -> Step:
    model = Attention()
    x, y = torch.randint(0, 100, (2, 16)), torch.randint(0, 100, (2 * 16,))
    return _step(model, lambda: F.cross_entropy(model(x).flatten(0, 1), y), fused=True)


def mlp_step() -> Step:
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
    x = torch.randn(5, 16)

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            result: torch.Tensor = model(x).float().square().mean()
        return result

    return _step(model, loss, fused=False)


def convolution_step() -> Step:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip
    x, y = torch.randn(4, 3, 12, 12), torch.randint(0, 10, (4,))
    return _step(model, lambda: F.cross_entropy(model(x), y), fused=False)


def _step(model: nn.Module, loss_of: Callable[[], torch.Tensor], fused: bool) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused, foreach=not fused)

    def step(number: int) -> None:
        with record_function(f"{STEP_MARK}#{number}"):
            with record_function(MARK_PREFIX + "forward"):
                loss = loss_of()
            with record_function(MARK_PREFIX + "backward"):
                loss.backward()
            with record_function(MARK_PREFIX + "optimizer"):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

    step(0)  # creates the optimizer's state
    return step


def _summed(name: str) -> str:
    # Autograd adds gradients up in place, but not under a dispatch mode, which might change what is added.
    return "aten::add" if name == "aten::add_" else name


def recorded(step: Step, path: Path) -> Ops:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as profiler:
        step(1)
        step(2)
    profiler.export_chrome_trace(str(path))
    return read_ops(read_trace(path))


@pytest.mark.parametrize("make", [attention_step, mlp_step, convolution_step])
def test_flops_equal_the_live_count(make: Callable[[], Step], tmp_path: Path) -> None:
    step = make()
    live = count_flops(lambda: step(3))
    ops = recorded(step, tmp_path / "trace.json.gz")
    assert ops.steps.number.tolist() == [1, 2]
    for index in range(2):
        rows = np.flatnonzero((ops.step == index) & (ops.call != NONE))
        matrix = [row for row in rows if ops.calls[ops.call[row]].cost.unit is ComputeUnit.MATRIX]
        assert ops.flops[matrix].sum() == live.matrix > 0
        by_op: dict[str, float] = {}
        for row in rows:
            by_op[_summed(ops.name(row))] = by_op.get(_summed(ops.name(row)), 0.0) + ops.flops[row]
        expected: dict[str, float] = {}
        for name, flops in live.by_op.items():
            expected[_summed(name)] = expected.get(_summed(name), 0.0) + flops
        assert {name: flops for name, flops in by_op.items() if flops} == expected
        assert ops.flops[rows].sum() == live.total
    assert live.uncounted == {}
    assert not (ops.role == OpRole.UNMODELED).any()


def test_time_of_a_step_is_accounted_for_once(tmp_path: Path) -> None:
    ops = recorded(attention_step(), tmp_path / "trace.json.gz")
    top = ops.parent == NONE
    total = (ops.end_ns - ops.start_ns)[top].sum()
    assert ops.self_ns.sum() == total
    overhead = ops.self_ns[ops.role == OpRole.OVERHEAD].sum()
    assert work_ns(ops).sum() + overhead == total


def test_phases_and_calls(tmp_path: Path) -> None:
    ops = recorded(attention_step(), tmp_path / "trace.json.gz")
    assert {PHASES[phase] for phase in np.unique(ops.phase) if phase != NONE} == {"forward", "backward", "optimizer"}
    assert count_op_calls(ops, "forward")["aten::linear"] == 3
    assert count_op_calls(ops)["aten::_fused_adamw_"] == 1
    assert count_op_calls(ops, "backward")["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] == 1


def test_memory_events(tmp_path: Path) -> None:
    memory = recorded(mlp_step(), tmp_path / "trace.json.gz").trace.memory
    assert len(memory) > 0
    assert set(memory.device_type.tolist()) == {0}
    assert (memory.size > 0).any()
    assert (memory.size < 0).any()
    assert np.array_equal(np.diff(memory.allocated), memory.size[1:])
