"""Liger's layers in a plan: the tensors that its kernels make and keep, counted by hand from liger-kernel 0.8.5."""

import sys
from unittest.mock import patch

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Relation
from perfkit.core.spec import RunSpec, parse_variants
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.techniques.activations import liger_stand_in
from perfkit.techniques.activations.liger import Liger
from perfkit.workloads.workload_table import resolve_workload
from tests.unit.techniques.tiny import new_state

ROWS, WIDTH = 8, 64
BYTES = 4 * ROWS * WIDTH
ROW_BYTES = 4 * ROWS


def record_passes(run: str) -> tuple[list[int], list[int]]:
    """Bytes that forward and backward of a layer allocate, but for the loss and its gradient."""
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        x, y = (torch.empty(1, ROWS, WIDTH, requires_grad=True) * 1 for _ in range(2))
        weight, cos = torch.empty(WIDTH, requires_grad=True), torch.empty(1, ROWS, WIDTH // 4)
        outer = torch.empty(1, ROWS, WIDTH)
        memory.begin()
        if run == "norm":
            made = liger_stand_in._Norm.apply(x, weight)
        elif run == "gate":
            made = liger_stand_in._Gate.apply(x, y)
        else:
            q, k = (each.view(1, ROWS, 4, WIDTH // 4).transpose(1, 2) for each in (x, y))
            made, _ = liger_stand_in._rotate(q, k, cos, cos)
            made = made.transpose(1, 2).reshape(1, ROWS, WIDTH)
        forward = [event.size for event in memory.recorded.allocations if event.size > 0]
        memory.begin()
        made.backward(outer)
        backward = [event.size for event in memory.recorded.allocations if event.size > 0]
    return forward, backward


def test_a_norm_keeps_a_number_a_row_and_writes_over_the_gradient() -> None:
    forward, backward = record_passes("norm")
    assert sorted(forward) == [ROW_BYTES, BYTES]
    assert BYTES not in backward[:-1]  # besides what the test's own product makes of it


def test_a_gate_makes_its_output_alone() -> None:
    forward, backward = record_passes("gate")
    assert forward == [BYTES]
    assert backward.count(BYTES) <= 2  # of the products that made its inputs


def test_queries_and_keys_are_turned_in_place() -> None:
    forward, _ = record_passes("rope")
    assert forward == []


@pytest.mark.slow
def test_a_plan_keeps_less_for_backward_and_leaves_transformers_as_it_was() -> None:
    size = "num_hidden_layers=2:hidden_size=256:intermediate_size=688:vocab_size=2048"
    workload = resolve_workload(f"hf:LlamaConfig:{size}", "cuda", None, None, 1)
    entry = resolve_entry("h100-sxm")
    kept = []
    with patch("perfkit.techniques.base.package.find_spec", lambda _name: None):  # it need not be installed
        for techniques in ("baseline", "liger"):
            (variant,) = parse_variants(techniques)
            held = build_memory_account(
                rehearse_step(RunSpec(workload=workload, techniques=variant), entry).allocations
            )
            assert held is not None
            kept.append({share.category: share.bytes for share in held.categories}["activation"])
    assert kept[1] < 0.7 * kept[0]
    modeling = sys.modules["transformers.models.llama.modeling_llama"]
    assert modeling.apply_rotary_pos_emb.__module__ == modeling.__name__


def test_it_needs_a_gpu_and_a_known_family() -> None:
    assert Liger().unavailable(torch.device("cpu"))
    with pytest.raises(UnavailableError, match="llama"):
        Liger().apply(new_state())


def test_every_block_runs_each_kernel() -> None:
    state = new_state()
    least = {claim.fact: claim.value for claim in Liger().claims(state) if claim.relation == Relation.AT_LEAST}
    blocks = float(len(state.block_names))
    assert list(least.values()) == [2 * blocks, blocks, blocks]
