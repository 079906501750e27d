"""Sabotaged techniques, each wrong in a way of its own: claims, hidden copies or parity catch every one."""

import gc
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from perfkit.analysis.suite.engagement import check_claims, is_engaged, is_engaged_in_part
from perfkit.analysis.suite.kept_copies import find_kept_copies
from perfkit.analysis.suite.parity import check_parity
from perfkit.core.record.claim import Claim
from perfkit.core.record.rank_record import RankRecord
from perfkit.instruments.facts.live_bytes import measure_live_bytes, sum_declared_bytes
from perfkit.instruments.facts.training_norms import watch_gradient_norm
from perfkit.instruments.facts.zero_weights import measure_zero_weight_share
from perfkit.instruments.training.live_objects import find_instances
from perfkit.instruments.training.tensors import get_address, has_storage
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.base.compile_facts import collect_compile_facts
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.workload import Workload, split_batch
from tests.fixtures.suites import record, spec
from tests.unit.techniques.facts import StepTrace, measured_facts, reference_facts
from tests.unit.techniques.tiny import FOUR_BLOCKS, TinyBlock, applied, batches, new_state

pytestmark = pytest.mark.slow  # real steps

STEPS = 3
Sabotage = Callable[[TrainState, ExitStack], None]
Outcome = tuple[str, ...]


def run(variant: str, sabotage: Sabotage | None, workload: Workload) -> tuple[RankRecord, tuple[Claim, ...]]:
    """The record of a variant, with the facts that its claims name."""
    gc.collect()
    before = find_instances(torch.Tensor)  # kept, so that no new storage has an address of theirs
    plain = (tensor for tensor in before if type(tensor) in (torch.Tensor, nn.Parameter) and has_storage(tensor))
    earlier = frozenset(get_address(tensor.untyped_storage()) for tensor in plain)
    state = new_state(workload)
    reference = reference_facts(state)
    made = applied(variant, state)
    with ExitStack() as stack:
        stack.callback(made.state.close)
        if sabotage is not None:
            sabotage(made.state, stack)
        losses = []
        torch.manual_seed(1)
        with watch_gradient_norm(made.state) as norms:
            for step in range(STEPS):
                parts = split_batch(batches(made.state, step)[0], made.state.microbatches)
                losses.append(train_step(made.state, parts, step).item())
        live = measure_live_bytes(made.state, earlier)
        facts = measured_facts(made.state, reference) | norms | collect_compile_facts(asked=True)
        facts |= {"zero_weight_share": measure_zero_weight_share(made.state.model) or 0.0}
        claims = tuple(claim for technique in made.techniques for claim in technique.claims(made.state))
        trace = StepTrace(made.state)
        named = {claim.fact for claim in claims} | {claim.relative_to for claim in claims}
        facts |= {name: trace.fact(*name.split(":", 1)) for name in named - facts.keys() if ":" in name}
        facts |= live | sum_declared_bytes(made.techniques, made.state)
    return record(losses=tuple(losses), parity=made.parity, facts=facts), claims


@cache
def run_baseline(name: str) -> RankRecord:
    return run("baseline", None, WORKLOADS[name])[0]


def judge(variant: str, sabotage: Sabotage | None, workload: str) -> Outcome:
    """The verdicts on a variant that do not credit it."""
    baseline = run_baseline(workload)
    ours, claims = run(variant, sabotage, WORKLOADS[workload])
    results = check_claims(claims, [ours.facts], baseline.facts, {})
    verdicts = {"in part": is_engaged_in_part(results)}
    verdicts["not active"] = is_engaged(results) is False and not verdicts["in part"]
    verdicts["unknown"] = is_engaged(results) is None
    verdicts["copies"] = bool(find_kept_copies([ours], [baseline]))
    verdicts["differs"] = check_parity(ours, spec(variant), baseline, spec()).verdict == "differs"
    return tuple(name for name, is_so in verdicts.items() if is_so)


class Dropped(nn.Module):
    """Layers whose dropout a technique must leave on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 128), nn.Dropout(0.5), nn.Linear(128, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Deep(nn.Module):
    """Twelve residual layers and a recurrent one, no dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh()) for _ in range(12))
        self.recurrent = nn.GRU(16, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return self.recurrent(x)[0]


WORKLOADS = {
    "blocks": FOUR_BLOCKS,
    "deep": replace(FOUR_BLOCKS, build_model=Deep, blocks=lambda _model: (), use_sdpa=None),
    "dropout": replace(FOUR_BLOCKS, build_model=Dropped, blocks=lambda _model: (), use_sdpa=None),
}


def get_blocks(state: TrainState) -> list[TinyBlock]:
    return [module for module in state.model.modules() if isinstance(module, TinyBlock)]


def make_attention_explicit(count: int) -> Sabotage:
    def sabotage(state: TrainState, _stack: ExitStack) -> None:
        for block in get_blocks(state)[:count]:
            block.explicit = True

    return sabotage


def call_without(block: nn.Module) -> None:
    """A checkpointed block runs its forward as it is."""
    inner = block._checkpoint_wrapped_module
    block.forward = inner.forward  # type: ignore[method-assign]


def keep_activations(count: int) -> Sabotage:
    def sabotage(state: TrainState, _stack: ExitStack) -> None:
        for number in range(count):
            call_without(state.model.get_submodule(f"blocks.{number}"))

    return sabotage


def leave_autocast(state: TrainState, _stack: ExitStack) -> None:
    """Half of the blocks compute in fp32."""
    for block in get_blocks(state)[:2]:
        forward = torch.autocast("cpu", enabled=False)(block.forward)
        block.forward = partial(_cast_input, forward)  # type: ignore[method-assign]


def _cast_input(forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return forward(x.float())


def sum_microbatches(state: TrainState, _stack: ExitStack) -> None:
    backward = state.backward
    state.backward = lambda loss: backward(loss * state.microbatches)


def update_in_a_loop(chosen: Callable[[torch.Tensor], bool]) -> Sabotage:
    """The optimizer updates the chosen parameters one by one."""

    def sabotage(state: TrainState, _stack: ExitStack) -> None:
        for optimizer in state.optimizers.values():
            group = optimizer.param_groups[0]
            slow = [parameter for parameter in group["params"] if chosen(parameter)]
            group["params"] = [parameter for parameter in group["params"] if not chosen(parameter)]
            optimizer.add_param_group({**group, "params": slow, "fused": False, "foreach": False})

    return sabotage


def train_the_base(state: TrainState, _stack: ExitStack) -> None:
    state.model.requires_grad_(True)


def train_nothing_of_a_block(state: TrainState, _stack: ExitStack) -> None:
    get_blocks(state)[1].requires_grad_(False)


def share_weights(state: TrainState, _stack: ExitStack) -> None:
    """Two blocks become one."""
    state.model.set_submodule("blocks.3", state.model.get_submodule("blocks.2"))


def stop_dropout(state: TrainState, _stack: ExitStack) -> None:
    state.model.eval()


def repeat_a_batch(state: TrainState, _stack: ExitStack) -> None:
    first = batches(state, 0)[0]
    loss = state.loss
    state.loss = lambda _batch: loss(first)  # type: ignore[method-assign]


def run_eagerly(_state: TrainState, stack: ExitStack) -> None:
    stack.enter_context(torch.compiler.set_stance("force_eager"))


def drop_masks(count: int) -> Sabotage:
    """Weights get back what their masks hid."""

    def sabotage(state: TrainState, _stack: ExitStack) -> None:
        masked = [module for module in state.model.modules() if prune.is_pruned(module) and hasattr(module, "weight")]
        for module in [each for each in masked if isinstance(each, nn.Linear)][:count]:
            module.weight_mask.fill_(1.0)

    return sabotage


def page_large_state(_state: TrainState, stack: ExitStack) -> None:
    stack.enter_context(patch("perfkit.techniques.activations.paged_optimizer.MIN_BYTES", 60_000))


def keep_gradients(state: TrainState, _stack: ExitStack) -> None:
    """Updates in backward leave the gradients."""
    kept: dict[nn.Parameter, torch.Tensor] = {}
    zero_grad = state.zero_grad

    def restore() -> None:
        zero_grad()
        for parameter in state.model.parameters():
            kept.setdefault(parameter, torch.ones_like(parameter))

    state.zero_grad = restore  # type: ignore[method-assign]


def keep_outputs(state: TrainState, _stack: ExitStack) -> None:
    """What blocks returned is kept for nobody, step after step."""
    kept: list[torch.Tensor] = []
    for block in state.blocks:
        block.register_forward_hook(lambda _module, _inputs, output: kept.append(output.detach().clone()))


def scale_gradients(state: TrainState, _stack: ExitStack) -> None:
    """Adam divides the factor away."""
    backward = state.backward
    state.backward = lambda loss: backward(loss * 8)


def change_a_gradient(change: Callable[[torch.Tensor], torch.Tensor]) -> Sabotage:
    """One of twelve layers gets another gradient."""

    def sabotage(state: TrainState, _stack: ExitStack) -> None:
        for parameter in state.model.get_submodule("layers.5").parameters():
            parameter.register_hook(change)

    return sabotage


def recompute_from_another_state(state: TrainState, _stack: ExitStack) -> None:
    """Outputs are right; the gradients are of a recomputation that began with another hidden state."""
    layer = state.model.get_submodule("recurrent")
    run = layer.forward

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, None]:
        again, _ = run(x, torch.full((1, len(x), 16), 0.5))
        return run(x)[0].detach() + again - again.detach(), None

    layer.forward = forward  # type: ignore[method-assign]


SABOTAGES: list[tuple[str, str, Sabotage, str, str]] = [
    ("attention stays explicit", "flash:backend=auto", make_attention_explicit(4), "blocks", "not active"),
    ("half of the attention stays explicit", "flash:backend=auto", make_attention_explicit(2), "blocks", "in part"),
    ("blocks keep their activations", "ckpt", keep_activations(4), "blocks", "not active"),
    ("half of the blocks keep them", "ckpt", keep_activations(2), "blocks", "not active"),
    ("half of the blocks compute in fp32", "amp", leave_autocast, "blocks", "not active"),
    ("microbatches are summed", "accum:steps=2", sum_microbatches, "blocks", "differs"),
    ("gradients are scaled", "optim:use=foreach", scale_gradients, "blocks", "differs"),
    ("a layer's gradient is 2 % too long", "optim:use=foreach", change_a_gradient(lambda grad: 1.02 * grad), "deep",
     "differs"),
    ("a layer's gradient is dropped", "optim:use=foreach", change_a_gradient(torch.zeros_like), "deep", "differs"),
    ("a layer's gradient is turned", "optim:use=foreach", change_a_gradient(lambda grad: grad.flip(0)), "deep",
     "differs"),
    ("another state is recomputed", "optim:use=foreach", recompute_from_another_state, "deep", "differs"),
    ("updates in a loop", "optim:use=fused", update_in_a_loop(lambda _: True), "blocks", "not active"),
    (
        "matrices in a loop", "optim:use=fused", update_in_a_loop(lambda parameter: parameter.dim() > 1), "blocks",
        "in part",
    ),
    ("the base is trained", "lora", train_the_base, "blocks", "not active"),
    ("a block is not trained", "optim:use=fused", train_nothing_of_a_block, "blocks", "differs"),
    ("blocks share weights", "flash:backend=auto", share_weights, "blocks", "differs"),
    ("dropout is off", "optim:use=foreach", stop_dropout, "dropout", "differs"),
    ("every batch is the first", "optim:use=fused", repeat_a_batch, "blocks", "differs"),
    ("compiled code falls back", "compile", run_eagerly, "blocks", "not active"),
    ("masks are dropped", "prune", drop_masks(99), "blocks", "not active"),
    ("a third of the masks is dropped", "prune", drop_masks(6), "blocks", "not active"),
    ("only large state is moved", "offload:what=optimizer:to=disk", page_large_state, "blocks", "not active"),
    ("gradients are kept", "optim_in_backward", keep_gradients, "blocks", "copies"),
    ("outputs are kept", "ckpt", keep_outputs, "blocks", "copies"),
]  # fmt: skip
# What is wrong everywhere, where a row has it wrong in part, which is harder to find.
WHOLE = {"attention stays explicit", "blocks keep their activations", "updates in a loop", "masks are dropped"}


@pytest.mark.parametrize(
    ("variant", "sabotage", "workload", "verdict"),
    [pytest.param(*row[1:], id=row[0], marks=[pytest.mark.nightly] if row[0] in WHOLE else []) for row in SABOTAGES],
)
def test_each_sabotage_is_caught(variant: str, sabotage: Sabotage, workload: str, verdict: str) -> None:
    assert verdict in judge(variant, sabotage, workload)


# Compiling takes long, and the facts here are of whole batches.
LEFT_OUT = {("compile", "blocks"), ("accum:steps=2", "blocks")}
HONEST = sorted({(variant, workload) for _, variant, _, workload, _ in SABOTAGES} - LEFT_OUT)
EVERY_TIME = {("ckpt", "blocks"), ("optim:use=fused", "blocks"), ("optim:use=foreach", "dropout")}


@pytest.mark.parametrize(
    ("variant", "workload"),
    [row if row in EVERY_TIME else pytest.param(*row, marks=pytest.mark.nightly) for row in HONEST],
)
def test_the_technique_itself_is_credited(variant: str, workload: str) -> None:
    assert judge(variant, None, workload) == ()


def test_averaged_microbatches_train_like_the_baseline() -> None:
    assert not {"differs", "copies"} & {*judge("accum:steps=2", None, "blocks")}
