"""Checkpointing of blocks that are tied, scripted, or changed in place."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.cost.live_flops import count_flops
from perfkit.instruments.facts.block_facts import collect_block_facts
from perfkit.techniques.activations.ckpt import Ckpt
from perfkit.techniques.base.technique import explain_refusal
from perfkit.workloads.workload import Workload, list_blocks
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import BATCH, TIME, WORKLOAD, applied, batches, new_state, train

ROWS, WIDTH = BATCH * TIME, 16


def make_block() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 24), nn.Tanh(), nn.Linear(24, WIDTH))


class Layers(nn.Module):
    """Calls one layer after the other; `layers` may have one several times."""

    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def make_tied_slots() -> nn.Module:
    first, second = make_block(), make_block()
    return Layers(nn.ModuleList([first, second, second, second]))


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = make_block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def make_tied_parents() -> nn.Module:
    first, second = Pair(), Pair()
    return Layers(nn.ModuleList([first, second, second, second]))


def tied(make: Callable[[], nn.Module], suffix: str) -> Workload:
    names = tuple(f"layers.{number}{suffix}" for number in range(4))
    return replace(WORKLOAD, build_model=make, blocks=lambda _model: names, use_sdpa=None)


@pytest.mark.parametrize(("make", "suffix"), [(make_tied_slots, ""), (make_tied_parents, ".inner")])
def test_a_tied_block_is_checkpointed_once_in_all_its_places(make: Callable[[], nn.Module], suffix: str) -> None:
    workload = tied(make, suffix)
    plain = applied("baseline", new_state(workload)).state
    made = applied("ckpt", new_state(workload))
    state = made.state
    assert train(state, steps=2) == train(plain, steps=2)
    assert state.checkpointed == (f"layers.0{suffix}", f"layers.1{suffix}")
    assert list_blocks(workload, state.model) == state.checkpointed
    wrapped = [state.model.get_submodule(name) for name in workload.blocks(state.model)]
    assert wrapped[1] is wrapped[2] is wrapped[3]
    (batch,) = batches(state, 0)
    again = [count_flops(lambda state=one: state.backward(state.loss(batch))).matrix for one in (state, plain)]
    assert again[0] - again[1] == 4 * 2 * ROWS * WIDTH * 24  # of each call the first product: none needs the second
    facts = collect_block_facts(state, batch, {})
    assert facts["recomputed_blocks"] == 2
    assert facts["block_flops"] == 4 * 2 * 2 * ROWS * WIDTH * 24
    kept = ROWS * WIDTH * 4 + torch.get_rng_state().nbytes
    assert facts["block_saved_tensor_bytes"] == 4 * kept


class Scripted(torch.jit.ScriptModule):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    @torch.jit.script_method
    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.down(torch.tanh(self.up(x)))


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_scripted_blocks_are_recomputed_to_their_end() -> None:
    names = ("layers.0", "layers.1")
    workload = replace(
        WORKLOAD,
        build_model=lambda: Layers(nn.ModuleList([Scripted(), Scripted()])),
        blocks=lambda _model: names,
        use_sdpa=None,
    )
    reference = reference_facts(new_state(workload))
    made = applied("ckpt", new_state(workload))
    assert train(made.state, steps=2) == train(applied("baseline", new_state(workload)).state, steps=2)
    facts = measured_facts(made.state, reference)
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    assert [text for holds, text in check_claims(claims, made.state, facts, {}) if not holds] == []
    assert facts["recomputed_flops"] == facts["block_flops"] == 2 * 2 * 2 * ROWS * WIDTH * 24


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, states = x[:, 0], []
        for item in x.unbind(1):
            state = self.cell(item, state)
            states.append(state)
        return torch.stack(states, 1)


def test_gradients_of_a_recurrent_cell_are_those_of_the_baseline_or_refused() -> None:
    """Its products are changed by ops that autograd does not see: kept, they gave other gradients."""
    workload = replace(
        WORKLOAD,
        build_model=lambda: Layers(nn.ModuleList([Recurrent()])),
        blocks=lambda _model: ("layers.0",),
        use_sdpa=None,
    )
    gradients = []
    for variant in ("baseline", "ckpt"):
        state = applied(variant, new_state(workload)).state
        state.backward(state.loss(batches(state, 0)[0]))
        gradients.append([parameter.grad for parameter in state.model.parameters()])
    assert all(map(torch.equal, *gradients))
    state = applied("ckpt:mode=selective", new_state(workload)).state
    with pytest.raises(UnavailableError, match=r"mode=full$"):
        train(state, steps=1)


def test_results_that_an_inplace_op_changes_are_a_reason() -> None:
    block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH))
    workload = replace(
        WORKLOAD, build_model=lambda: Layers(nn.ModuleList([block])), blocks=lambda _model: ("layers.0",), use_sdpa=None
    )
    state = applied("ckpt:mode=selective", new_state(workload)).state
    with pytest.raises(RuntimeError) as raised:
        train(state, steps=1)
    assert "mode=full" in explain_refusal(raised.value, [Ckpt(mode="selective")])
