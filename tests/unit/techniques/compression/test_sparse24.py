"""What 2:4 sparsity says where it cannot act, and which layers it takes; its products need a GPU."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.base.technique import classify_inability, explain_inability
from perfkit.techniques.compression.sparse24 import Sparse24
from perfkit.workloads.workload import Workload
from tests.fixtures.torch_features import import_torchao
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.test_compose import composed
from tests.unit.techniques.tiny import BLOCKS, WORKLOAD, applied, new_state

torchao = import_torchao()


def of(build_model, **changes) -> Workload:
    return replace(WORKLOAD, build_model=build_model, **changes)


def test_a_cpu_has_no_units_for_it() -> None:
    reason = explain_inability(Sparse24(), torch.device("cpu"))
    assert reason is not None
    assert classify_inability(Sparse24()) == "skip.device"
    with pytest.raises(UnavailableError, match=re.escape(reason)):
        applied("sparse24")


def test_layers_in_16_bits_are_made_sparse_and_keep_their_parameters() -> None:
    state = new_state(of(lambda: WORKLOAD.build_model().bfloat16()))
    weights = {name: id(parameter) for name, parameter in state.model.named_parameters()}
    Sparse24().apply(state)
    sparse = [name for name, module in state.model.named_modules() if type(module).__name__ == "SemiSparseLinear"]
    assert len(sparse) == 4 * BLOCKS == state.facts["sparse_layers"]
    assert all(name.startswith("blocks.") for name in sparse)
    assert {name: id(parameter) for name, parameter in state.model.named_parameters()} == weights


@pytest.mark.parametrize(
    ("build_model", "reason"),
    [
        (WORKLOAD.build_model, r"--dtype bf16.* bf16\+sparse24"),
        (lambda: nn.Linear(16, 16).bfloat16(), r"\blinear\b.*\b64\b"),
    ],
    ids=["fp32", "narrow"],
)
def test_other_layers_are_refused(build_model, reason: str) -> None:
    blocks = WORKLOAD.blocks if build_model is WORKLOAD.build_model else lambda _model: ()
    with pytest.raises(UnavailableError, match=reason):
        Sparse24().apply(new_state(of(build_model, blocks=blocks)))


def test_its_claim_does_not_hold_of_dense_products() -> None:
    idle = applied("baseline").state
    claims = Sparse24().claims(idle)
    assert [holds for holds, _ in check_claims(claims, idle, {"sparse_layers": 4.0 * BLOCKS}, {})] == [False]
    assert Sparse24().parity().relative is None


@pytest.mark.parametrize("other", ["fp8", "prune", "qat", "qlora"])
def test_what_changes_the_same_layers_is_refused(other: str) -> None:
    with pytest.raises(UsageError, match=f"{other} and sparse24 "):
        composed(f"{other}+sparse24")
