"""Sabotaged techniques: they act on a part only, or on nothing, and none is credited."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.optim import Optimizer
from torch.testing._internal.distributed.fake_pg import FakeStore

from perfkit.analysis.suite.engagement import check_claims, is_engaged, is_engaged_in_part
from perfkit.core.record.claim import Claim
from perfkit.instruments.facts.exchanged_bytes import ExchangedBytes
from perfkit.instruments.facts.fused_calls import FusedCalls
from perfkit.instruments.training.tensors import collect_state_facts
from perfkit.techniques.apply import AppliedTechniques
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.engines.compile import _measure_flops_share
from perfkit.techniques.optimizers.optim import Optim
from perfkit.techniques.optimizers.optimizer_state import count_adam8bit_bytes
from perfkit.techniques.optimizers.optimizers import OptimizerKind
from perfkit.workloads.workload import Workload
from tests.unit.techniques import tiny
from tests.unit.techniques.facts import StepTrace, fused_facts
from tests.unit.techniques.tiny import FOUR_BLOCKS, TinyBlock, applied, new_state, train


def judge(claims: tuple[Claim, ...], state: TrainState, facts: dict[str, float]) -> str:
    """Whether a technique with these claims acted."""
    trace = StepTrace(state)
    named = {claim.fact for claim in claims} - facts.keys()
    facts = facts | {name: trace.fact(*name.split(":", 1)) for name in named if ":" in name}
    results = check_claims(claims, [facts], None, {})
    in_part = is_engaged_in_part(results)
    return "in part" if in_part else {True: "active", False: "not active", None: "unknown"}[is_engaged(results)]


def judge_applied(made: AppliedTechniques) -> str:
    try:
        return judge(made.techniques[0].claims(made.state), made.state, fused_facts(made.state))
    finally:
        made.state.close()


def switch_first(count: int) -> Callable[[nn.Module], None]:
    def use_sdpa(model: nn.Module) -> None:
        blocks = [module for module in model.modules() if isinstance(module, TinyBlock)]
        for block in blocks[:count]:
            block.explicit = False

    return use_sdpa


def test_fused_attention_in_some_layers_is_a_part() -> None:
    outcomes = {}
    for count in (0, 1, 3, 4):
        workload = replace(FOUR_BLOCKS, use_sdpa=switch_first(count))
        outcomes[count] = judge_applied(applied("flash:backend=auto", new_state(workload)))
    assert outcomes == {0: "not active", 1: "in part", 3: "in part", 4: "active"}


def test_recomputed_attention_counts_alike() -> None:
    workload = replace(FOUR_BLOCKS, use_sdpa=switch_first(2))
    made = applied("flash+ckpt", new_state(workload))
    facts = fused_facts(made.state)
    assert (facts["fused_attention_calls"], facts["all_attention_calls"]) == (4.0, 8.0)
    made.state.close()


def test_attention_that_falls_back_to_math_is_not_active() -> None:
    made = applied("flash:backend=auto", new_state(FOUR_BLOCKS))
    with sdpa_kernel(SDPBackend.MATH):
        assert judge_applied(made) == "not active"


def test_math_in_some_layers_is_a_part() -> None:
    outcomes = {}
    for count in (0, 2, 4):
        made = applied("flash:backend=math", new_state(replace(FOUR_BLOCKS, use_sdpa=switch_first(count))))
        outcomes[count] = judge_applied(made)
    assert outcomes == {0: "not active", 2: "in part", 4: "active"}


def test_flex_attention_is_one_call_each() -> None:
    q, k, v = torch.randn(3, 1, 2, 16, 8).unbind()
    mask = torch.ones(16, 16, dtype=torch.bool).tril()
    with torch.compiler.set_stance("force_eager"), FusedCalls([]) as calls:
        for _ in range(3):
            flex_attention(q, k, v)
        (q @ k.transpose(-2, -1)).masked_fill(~mask, -1e9).softmax(-1).matmul(v)
    facts = calls.collect_facts()
    assert (facts["fused_attention_calls"], facts["all_attention_calls"]) == (3.0, 4.0)


def test_a_router_is_no_attention() -> None:
    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(16, 4)
            self.experts = nn.Parameter(torch.zeros(4, 16, 16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shares = self.router(x).softmax(-1)
            return torch.bmm(shares.transpose(1, 2), x) @ self.experts

    workload = replace(tiny.WORKLOAD, build_model=Routed, loss=_sum_outputs, blocks=lambda _model: ())
    assert fused_facts(applied("baseline", new_state(workload)).state)["all_attention_calls"] == 0.0


def _sum_outputs(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    outputs: torch.Tensor = model(batch["x"])
    return outputs.square().sum()


def change_groups(how: str, chosen: Callable[[torch.Tensor], bool]) -> Workload:
    """A workload whose AdamW runs `how` for the chosen parameters and a loop for the others."""

    def build(model: nn.Module) -> Optimizer:
        parts: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
        for parameter in model.parameters():
            parts[chosen(parameter)].append(parameter)
        others, some = ({"params": part, "foreach": False, "fused": False} for part in parts)
        return torch.optim.AdamW([{**some, how: True}, others])

    return replace(FOUR_BLOCKS, build_optimizer=build)


def test_fused_updates_of_vectors_alone_are_a_part() -> None:
    for how in ("fused", "foreach"):
        state = applied("baseline", new_state(change_groups(how, lambda parameter: parameter.dim() == 1))).state
        train(state, steps=1)
        facts = fused_facts(state)
        assert 0 < facts[f"updated_parameter_bytes:{how}"] < 0.1 * facts["updated_parameter_bytes"]
        assert judge(Optim(use=how).claims(state), state, facts) == "in part"


def test_fused_updates_of_nearly_all_are_active() -> None:
    state = applied("baseline", new_state(change_groups("fused", lambda parameter: parameter.dim() > 1))).state
    train(state, steps=1)
    assert judge(Optim(use="fused").claims(state), state, fused_facts(state)) == "active"


class EightBit(Optimizer):
    """Keeps both moments in 8 bits for tensors of at least 4096 numbers, as bitsandbytes does."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {})

    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                large = parameter.numel() >= 4096
                moment = torch.zeros(parameter.numel(), dtype=torch.uint8 if large else torch.float32)
                scales = torch.zeros(-(-parameter.numel() // 256) if large else 0)
                self.state[parameter] = {
                    f"{name}{number}": tensor.clone()
                    for number in (1, 2)
                    for name, tensor in (("state", moment), ("absmax", scales))
                }


def judge_eight_bit(width: int, layers: int, monkeypatch: pytest.MonkeyPatch) -> str:
    kind = OptimizerKind(f"{__name__}:EightBit", count_adam8bit_bytes, 1.0, "this test", code_bytes=2.0)
    monkeypatch.setitem(Optim.claims.__globals__["OPTIMIZERS"], "adamw8bit", kind)
    small = [nn.Linear(16, width, bias=False), *(nn.Linear(width, width, bias=False) for _ in range(layers))]
    workload = replace(
        tiny.WORKLOAD,
        build_model=lambda: nn.Sequential(*small),
        build_optimizer=lambda model: EightBit([*model.parameters()]),
        loss=_sum_outputs,
        blocks=lambda _model: (),
    )
    state = applied("baseline", new_state(workload)).state
    train(state, steps=1)
    facts = collect_state_facts(state.optimizers.values())
    total = {"optimizer_state_bytes": sum(facts.values())}
    return judge(Optim(use="adamw8bit").claims(state), state, facts | total)


def test_eight_bits_need_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge_eight_bit(32, 4, monkeypatch) == "not active"  # none has 4096 numbers
    assert judge_eight_bit(64, 1, monkeypatch) == "in part"  # 4096 of 5120
    assert judge_eight_bit(64, 6, monkeypatch) == "active"


@pytest.fixture
def two_ranks() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def keep_parameters(block: FSDPModule) -> None:
    """Gathered for forward, and kept for backward."""
    block.set_reshard_after_forward(False)


def keep_gradients(block: FSDPModule) -> None:
    block.set_requires_gradient_sync(False)


@pytest.mark.usefixtures("two_ranks")
@pytest.mark.parametrize(
    ("variant", "sabotage", "blocks", "gathered", "reduced"),
    [
        ("zero3", keep_parameters, 0, "active", "active"),
        ("zero3", keep_parameters, 4, "in part", "active"),
        ("zero3", keep_gradients, 2, "active", "in part"),
        ("zero2", keep_gradients, 0, "active", "active"),
        ("zero2", keep_gradients, 3, "active", "in part"),
    ],
)
def test_bytes_gathered_and_reduced_show_what_stays_whole(
    variant: str, sabotage: Callable[[FSDPModule], None], blocks: int, gathered: str, reduced: str
) -> None:
    made = applied(variant, new_state(FOUR_BLOCKS, World(size=2)))
    for number in range(blocks):
        block = made.state.model.get_submodule(f"blocks.{number}")
        assert isinstance(block, FSDPModule)
        sabotage(block)
    train(made.state, steps=1)
    with ExchangedBytes(made.state.mesh.lines) as exchanged:
        train(made.state, steps=1)
    claims = [claim for claim in made.techniques[0].claims(made.state) if claim.whole]
    results = check_claims(claims, [exchanged.collect_facts()], None, {})
    outcomes = {claim.fact: result.outcome for claim, result in zip(claims, results, strict=True)}
    assert outcomes == {"collective_bytes:all-gather": gathered, "collective_bytes:reduce-scatter": reduced}
    made.state.close()


def test_blocks_are_a_share_of_the_flops_to_compile() -> None:
    """A block has 12 WIDTH^2 of products a token and its attention; stem and head have 2 x 16 WIDTH."""
    state = new_state(FOUR_BLOCKS)
    token = 2 * (12 * tiny.WIDTH**2 + 2 * tiny.TIME * tiny.WIDTH)
    outside = 2 * 2 * 16 * tiny.WIDTH
    assert _measure_flops_share(state, state.blocks) == pytest.approx(4 * token / (4 * token + outside))
    assert _measure_flops_share(state, state.blocks[:1]) == pytest.approx(token / (4 * token + outside))
    assert _measure_flops_share(state, [state.model, *state.blocks]) == 1.0


@pytest.mark.usefixtures("two_ranks")
@pytest.mark.parametrize(
    ("layout", "kinds"),
    [(Replicate(), {"all-reduce"}), (Shard(1), {"all-gather", "reduce-scatter"})],
)
def test_a_plan_of_plain_styles_is_checked_by_what_it_exchanges(layout: Placement, kinds: set[str]) -> None:
    plan = {
        "blocks.*.up": ColwiseParallel(input_layouts=layout),
        "blocks.*.down": RowwiseParallel(output_layouts=layout),
    }
    made = applied("tp", new_state(replace(FOUR_BLOCKS, tensor_parallel_plan=lambda *_: plan), World(size=2)))
    facts = {claim.fact for claim in made.techniques[0].claims(made.state)}
    made.state.close()
    assert {fact.split(":")[1] for fact in facts if fact.startswith("collective_bytes:")} == kinds
