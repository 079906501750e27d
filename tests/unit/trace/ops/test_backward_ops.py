"""Backward ops and their forward ops, by hand and in traces recorded here, with and without checkpointing."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import OpRole, Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import Event, event, ops_of, sequence


def numbered(name: str, ts: float, dur: float, number: int, tid: int = 1) -> Event:
    return event(name, ts, dur, tid=tid, **sequence(number, backward=tid != 1))


def flow(number: int, ph: str, ts: float, tid: int) -> Event:
    return {"ph": ph, "id": number, "cat": "fwdbwd", "name": "fwdbwd", "ts": ts, "tid": tid, "pid": 1}


def test_the_last_op_with_a_number_created_the_node(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        numbered("aten::linear", 0, 9, 5), numbered("aten::t", 1, 1, 5), numbered("aten::addmm", 3, 5, 6),
        numbered("autograd::engine::evaluate_function: AddmmBackward0", 20, 9, 6, tid=2),
        numbered("AddmmBackward0", 21, 5, 6, tid=2), event("aten::mm", 22, 2, tid=2), event("aten::sum", 27, 1, tid=2),
        numbered("autograd::engine::evaluate_function: TBackward0", 30, 9, 5, tid=2),
        event("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 40, 9, tid=2),
        event("aten::add_", 42, 2, tid=2),
    )  # fmt: skip
    assert ops.forward.tolist() == [NONE] * 3 + [2] * 4 + [1] + [NONE] * 2
    assert not ops.recomputed.any()


def test_arrows_where_numbers_are_missing_or_of_several_threads(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        event("aten::mul", 0, 2), event("MulBackward0", 20, 5, tid=2), flow(1, "s", 0, 1), flow(1, "f", 20, 2),
        numbered("aten::exp", 3, 2, 9), numbered("aten::log", 4, 2, 9, tid=3),
        numbered("ExpBackward0", 30, 5, 9, tid=2), flow(2, "s", 3, 1), flow(2, "f", 30, 2),
    )  # fmt: skip
    linked = {ops.name(row): ops.name(forward) for row, forward in enumerate(ops.forward.tolist()) if forward != NONE}
    assert linked == {"MulBackward0": "aten::mul", "ExpBackward0": "aten::exp"}


def test_what_did_not_run_before_is_not_run_again(tmp_path: Path) -> None:
    ops = ops_of(
        tmp_path,
        numbered("aten::exp", 0, 2, 5),
        numbered("MineBackward", 20, 30, 6, tid=2), event("aten::neg", 21, 2, tid=2),
        numbered("aten::exp", 30, 5, 7, tid=2), event("aten::copy_", 31, 2, tid=2),
        numbered("aten::log", 36, 5, 8, tid=2),
    )  # fmt: skip
    again = [ops.name(row) for row in np.flatnonzero(ops.recomputed).tolist()]
    assert again == ["aten::exp", "aten::copy_"]


@pytest.mark.parametrize("computes", [True, False])
def test_an_op_in_which_recomputation_stops_does_nothing(tmp_path: Path, computes: bool) -> None:
    """Autograd keeps an op's operands before it computes: if these are the last that backward needs, it never does."""
    kept = (event("aten::detach", 31, 1, tid=2), event("aten::resolve_conj", 33, 1, tid=2))
    ops = ops_of(
        tmp_path,
        numbered("aten::exp", 0, 2, 4), numbered("aten::mm", 3, 5, 5), event("aten::resolve_conj", 4, 1),
        numbered("MineBackward", 20, 30, 6, tid=2), event("aten::neg", 21, 2, tid=2),
        numbered("aten::exp", 24, 4, 7, tid=2), numbered("aten::mm", 30, 5, 8, tid=2), *kept[: 1 + computes],
    )  # fmt: skip
    (row,) = [row for row in np.flatnonzero(ops.recomputed).tolist() if ops.name(row) == "aten::mm"]
    assert (ops.role[row] == OpRole.OVERHEAD) is not computes
    assert (ops.owner[row] == NONE) is not computes
    (exp,) = [row for row in np.flatnonzero(ops.recomputed).tolist() if ops.name(row) == "aten::exp"]
    assert ops.role[exp] != OpRole.OVERHEAD  # that it calls nothing tells nothing: it never does


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.up, self.down = (
            nn.LayerNorm(16),
            nn.Linear(16, 48),
            nn.Linear(16, 32),
            nn.Linear(32, 16),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        result: torch.Tensor = x + self.down(F.gelu(self.up(x)))
        return result


def recorded(tmp_path: Path, step: Callable[[], None], stacks: bool = False) -> Ops:
    """Two steps."""
    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=stacks) as profiler:
        step()
        step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    return read_ops(read_trace(tmp_path / "trace.json"))


def blocks_step(reentrant: bool | None) -> Callable[[], None]:
    """A step of two blocks, checkpointed or (None) not."""
    blocks, head = nn.ModuleList([Block(), Block()]), nn.Linear(16, 4)
    x = torch.randn(2, 8, 16, requires_grad=True)

    def step() -> None:
        h = x
        for block in blocks:
            h = block(h) if reentrant is None else checkpoint(block, h, use_reentrant=reentrant)
        head(h).square().mean().backward()

    return step


def penalty_step() -> None:
    """A step whose loss holds the gradients themselves."""
    x, y = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True)
    loss = (x * y).tanh().mean()  # a product has products as gradients
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + gradient.square().sum()).backward()


def costed(ops: Ops, chosen: NDArray[np.bool_]) -> Counter[str]:
    return Counter(ops.name(row) for row in np.flatnonzero(chosen & (ops.role == OpRole.COSTED)).tolist())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_runs_the_products_of_forward_again(tmp_path: Path, reentrant: bool) -> None:
    ops = recorded(tmp_path, blocks_step(reentrant))
    again = costed(ops, ops.recomputed)
    attention = "aten::_scaled_dot_product_flash_attention_for_cpu"
    # In each of two steps both blocks, with three linear layers each. Without reentry it stops before the last one:
    # backward needs no result of it.
    assert (again["aten::addmm"], again["aten::gelu"], again[attention]) == (12 if reentrant else 8, 4, 4)
    assert again["aten::native_layer_norm"] == 4
    assert not any("backward" in name or name == "aten::mm" for name in again)
    assert (ops.forward[ops.recomputed] == NONE).all()


def test_without_checkpointing_nothing_is_run_again(tmp_path: Path) -> None:
    assert not recorded(tmp_path, blocks_step(None)).recomputed.any()


def test_gradients_of_gradients_are_nothing_run_again(tmp_path: Path) -> None:
    assert not recorded(tmp_path, penalty_step).recomputed.any()


@pytest.mark.parametrize("reentrant", [None, True, False])
def test_gradients_of_products_belong_to_them(tmp_path: Path, reentrant: bool | None) -> None:
    ops = recorded(tmp_path, blocks_step(reentrant))
    rows = [row for row in np.flatnonzero(ops.forward != NONE).tolist() if ops.name(row) == "aten::mm"]
    # Two products for each of three layers in two blocks and for the head, in two steps.
    assert len(rows) == 2 * 2 * (2 * 3 + 1)
    assert {ops.name(ops.forward[row]) for row in rows} == {"aten::addmm"}


@pytest.mark.parametrize("reentrant", [None, True, False])
def test_modules_of_backward(tmp_path: Path, reentrant: bool | None) -> None:
    ops = recorded(tmp_path, blocks_step(reentrant), stacks=True)
    products = [row for row in range(len(ops)) if ops.name(row) == "aten::mm" and ops.forward[row] != NONE]
    found = Counter(ops.get_module_name(row) for row in products)
    in_blocks = {f"Block_{block}/Linear_{3 * block + layer}" for block in (0, 1) for layer in (0, 1, 2)}
    assert {name for name in found if "/" in name} == in_blocks
    assert set(found.values()) == {4}
