"""Adapters of a hand-counted size are all that is trained, on workloads of many kinds."""

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants, parse_workload
from perfkit.instruments.training.tensors import list_known_blocks, sum_category_bytes
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, rehearse_step
from perfkit.plan.rehearsal.step_ops import StepOp
from perfkit.techniques.adapters.adapters import Adapters
from perfkit.techniques.base.own_step import run_trial_step
from perfkit.techniques.base.technique import classify_inability, explain_inability
from perfkit.workloads.gpt import SIZES
from perfkit.workloads.resnet import ResNet
from perfkit.workloads.training import Training
from perfkit.workloads.workload import Batch, Workload, make_adamw
from perfkit.workloads.workload_table import load_workload
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import grouped
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts, state_bytes
from tests.unit.techniques.test_compose import composed
from tests.unit.techniques.tiny import (
    BLOCKS,
    FOUR_BLOCKS,
    WIDTH,
    WORKLOAD,
    applied,
    batches,
    losses_of,
    new_state,
    train,
)

# Found and not imported, which takes seconds wherever tests are only collected.
pytestmark = pytest.mark.skipif(
    not (find_spec("peft") and find_spec("bitsandbytes")), reason="needs peft and bitsandbytes"
)

VARIANTS = ("lora", "qlora")
NARROW = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16, "batch_size": 1})
LAYERS = SIZES["nano"].layers


@cache
def rehearsed_qlora() -> RehearsedStep:
    (techniques,) = parse_variants("qlora")
    return rehearse_step(RunSpec(workload=NARROW, techniques=techniques))


# Of a block: qkv (1 + 3 widths), out (1 + 1), up (1 + 4), down (4 + 1).
FEATURES = BLOCKS * (4 + 2 + 5 + 5) * WIDTH
WEIGHTS = BLOCKS * (3 + 1 + 4 + 4) * WIDTH * WIDTH


def results_of(variant: str, workload: Workload = WORKLOAD) -> list[tuple[bool, str]]:
    reference = reference_facts(new_state(workload))
    made = applied(variant, new_state(workload))
    train(made.state, steps=2)
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    facts = measured_facts(made.state, reference)
    return check_claims(claims, made.state, facts, measured_facts(applied("baseline", new_state(workload)).state, {}))


@pytest.mark.parametrize(("variant", "rank"), [("lora", 8), ("lora:rank=4", 4), ("qlora", 8)])
def test_trained_bytes_and_state_are_those_of_the_papers(variant: str, rank: int) -> None:
    """rank (m + n) numbers a layer (arXiv 2106.09685, section 4.1), two moments of each and a count of updates."""
    state = applied(variant).state
    train(state, steps=2)
    trained = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
    assert sum(parameter.nbytes for parameter in trained) == 4 * rank * FEATURES
    assert state_bytes(state) == 2 * 4 * rank * FEATURES + 4 * len(trained)
    assert len(trained) == 2 * 4 * BLOCKS


def test_weights_in_4_bits_take_half_a_byte_and_their_scales_an_8th_of_a_bit_more() -> None:
    """A scale in 8 bits for each 64 weights, one of 32 for each 256 scales (arXiv 2305.14314, section 3)."""
    model = applied("qlora").state.model
    rounded = [module for module in model.modules() if type(module).__name__ == "Linear4bit"]
    assert sum(module.weight.nbytes for module in rounded) == WEIGHTS / 2
    states = [module.weight.quant_state for module in rounded]
    scales = sum(each.absmax.nbytes + each.state2.absmax.nbytes for each in states)
    weights = [module.weight.numel() * 2 for module in rounded]
    assert scales == sum(count // 64 + 4 * math.ceil(count / 64 / 256) for count in weights)


def test_a_plan_holds_what_a_run_does_of_weights_in_4_bits() -> None:
    """Nothing of the weights in 32 bits is left, and the scales are the parameters' own."""
    held = build_memory_account(rehearsed_qlora().allocations)
    state = applied("qlora", new_state(load_workload(NARROW, device="cpu"))).state
    train(state, steps=2)
    kept = sum_category_bytes(list_known_blocks(state), "parameter")
    assert held is not None
    assert {share.category: share.bytes for share in held.categories}["parameter"] == kept
    scales = [module.weight.quant_state for module in state.model.modules() if type(module).__name__ == "Linear4bit"]
    floating = sum(p.nbytes for p in state.model.parameters())
    tables = sum(4 * (16 + 256 + 1) + each.absmax.nbytes + each.state2.absmax.nbytes for each in scales)
    assert kept == floating + tables


def test_a_plan_unpacks_a_weight_for_each_of_its_products() -> None:
    """In forward and in backward, but of the first layer, whose input takes no gradient."""
    ops = [each for each in rehearsed_qlora().issued if isinstance(each, StepOp)]
    unpacking = Counter((each.work.op, each.phase) for each in ops if each.work.op.endswith("_4bit"))
    assert unpacking == {
        ("bitsandbytes::gemm_4bit", "forward"): 4 * LAYERS,
        ("bitsandbytes::dequantize_4bit", "backward"): 4 * LAYERS - 1,
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_first_loss_is_the_baselines_and_training_goes_on(variant: str) -> None:
    losses, plain = losses_of(variant, steps=8), losses_of("baseline", steps=8)
    assert losses[0] == pytest.approx(plain[0], rel=1e-6 if variant == "lora" else 0.05)
    assert losses[-1] < losses[0]
    (technique,) = composed(variant)
    assert technique.parity().relative is None


@pytest.mark.parametrize("variant", VARIANTS)
def test_its_claims_hold_and_tell_it_from_doing_nothing(variant: str) -> None:
    assert [text for holds, text in results_of(variant) if not holds] == []
    (technique,) = composed(variant)
    idle = applied("baseline").state
    claims = technique.claims(idle)
    expected = {"weights_in_4_bits": float(WEIGHTS)}
    expected |= dict.fromkeys(("adapter_bytes", "adapter_gradient_bytes"), 4.0 * 8 * FEATURES)
    facts = measured_facts(idle, expected | reference_facts(idle))
    facts.setdefault("parameter_bytes:uint8", 0.0)
    assert not any(holds for holds, _ in check_claims(claims, idle, facts, facts))


def test_adapters_that_are_not_trained_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adapters, "_replace_in_groups", lambda _self, _optimizer: None)
    failed = [text for holds, text in results_of("lora") if not holds]
    assert any("optimizer state" in text for text in failed), failed


def test_a_base_that_is_not_frozen_is_caught() -> None:
    made = applied("lora")
    made.state.model.requires_grad_(True)
    claims = made.techniques[0].claims(made.state)
    facts = measured_facts(made.state, {})
    assert not check_claims(claims, made.state, facts, {})[0][0]


@pytest.mark.parametrize(
    "variant",
    [
        "lora+ckpt",
        pytest.param("amp+lora", marks=pytest.mark.nightly),
        "amp+qlora",
        "bf16+lora",
        pytest.param("bf16:update=nearest+lora:rank=2+ckpt", marks=pytest.mark.nightly),
        pytest.param("flash+lora", marks=pytest.mark.nightly),
        pytest.param("lora+optim:use=lion", marks=pytest.mark.nightly),
        "lora+optim_in_backward",
        pytest.param("qlora+optim_in_backward", marks=pytest.mark.nightly),
    ],
)
def test_it_goes_with_others(variant: str) -> None:
    assert [text for holds, text in results_of(variant) if not holds] == []


def test_the_workload_finds_its_parameters_by_name_and_its_groups_stay() -> None:
    """Each adapter with the options of its layer's weight; the workload's own names, and nothing frozen."""
    seen: list[int] = []

    def two_groups(model: nn.Module) -> torch.optim.Optimizer:
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        seen.append(len(trained))
        up = [trained.pop(f"blocks.{number}.up.weight") for number in range(BLOCKS)]
        return torch.optim.AdamW([{"params": up, "lr": 0.5}, {"params": [*trained.values()]}], lr=0.1)

    for variant in VARIANTS:
        state = applied(variant, new_state(replace(WORKLOAD, build_optimizer=two_groups))).state
        groups = state.optimizers[""].param_groups
        assert [(group["lr"], len(group["params"])) for group in groups] == [(0.5, 2 * BLOCKS), (0.1, 6 * BLOCKS)]
        assert all(p.requires_grad for group in groups for p in group["params"])
    assert seen == [len([*new_state().model.parameters()])] * 2
    train(applied("lora", new_state(grouped.build())).state, steps=1)


def test_layers_that_share_a_weight_each_train_their_adapter() -> None:
    def tied() -> nn.Module:
        model = WORKLOAD.build_model()
        model.blocks[1].up.weight = model.blocks[0].up.weight
        return model

    state = applied("lora", new_state(replace(WORKLOAD, build_model=tied))).state
    trained = {id(p) for p in state.model.parameters() if p.requires_grad}
    assert {id(p) for group in state.optimizers[""].param_groups for p in group["params"]} == trained
    assert len(trained) == 2 * 4 * BLOCKS


def test_blocks_before_the_first_adapter_are_not_recomputed_and_not_asked_for() -> None:
    """They have no backward pass: of four blocks the last one's forward is a quarter of the ops."""
    assert [text for holds, text in results_of("lora:targets=blocks.3.*+ckpt", FOUR_BLOCKS) if not holds] == []
    made = applied("lora:targets=blocks.3.*+ckpt", new_state(FOUR_BLOCKS))
    claims = {claim.fact: claim.value for technique in made.techniques for claim in technique.claims(made.state)}
    assert claims["recomputed_blocks"] == 1.0
    assert claims["recomputed_ops"] == pytest.approx(0.1 / 4)


def test_a_rehearsed_step_builds_its_optimizers_with_nothing_frozen() -> None:
    seen: list[int] = []

    def counted(model: nn.Module) -> torch.optim.Optimizer:
        seen.append(sum(p.requires_grad for p in model.parameters()))
        return make_adamw(model)

    def step(training: Training, batch: Batch) -> torch.Tensor:
        loss = WORKLOAD.loss(training.model, batch)
        training.backward(loss)
        return loss

    state = applied("lora", new_state(replace(WORKLOAD, loss=None, build_optimizer=counted, step=step))).state
    run_trial_step(state, batches(state, 0)[0])
    assert seen == [len([*new_state().model.parameters()])] * 2


def test_targets_choose_layers_by_name() -> None:
    model = applied("lora:targets=*.[qo]*").state.model
    adapted = {name.rsplit(".", 1)[1] for name, module in model.named_modules() if hasattr(module, "lora_A")}
    assert adapted == {"qkv", "out"}
    with pytest.raises(UnavailableError, match=r"\btiny\b.*\bnothing$", check=has_id("skip.no_layers")):
        applied("lora:targets=nothing")


def test_convolutions_have_no_adapters() -> None:
    workload = ResNet(depth=18, batch_size=2, image_size=32).build()
    with pytest.raises(UnavailableError, match="blocks", check=has_id("skip.no_layers")):
        applied("lora", new_state(workload))


def test_attention_that_reads_its_weights_itself_stays_frozen() -> None:
    """`nn.MultiheadAttention` does not call its output layer: an adapter there would learn nothing."""
    workload = Workload(
        name="encoder",
        unit="samples",
        units_per_batch=2,
        build_model=lambda: nn.TransformerEncoderLayer(WIDTH, 2, dropout=0.0, batch_first=True),
        build_optimizer=make_adamw,
        make_batch=lambda generator: {"x": torch.randn(2, 4, WIDTH, generator=generator)},
        loss=lambda model, batch: F.mse_loss(model(batch["x"]), batch["x"]),
    )
    assert [text for holds, text in results_of("lora", workload) if not holds] == []
    model = applied("lora", new_state(workload)).state.model
    assert [name for name, module in model.named_modules() if hasattr(module, "lora_A")] == ["linear1", "linear2"]


def test_an_optimizer_with_its_state_made_beforehand_is_refused() -> None:
    workload = replace(WORKLOAD, build_optimizer=lambda model: torch.optim.Adagrad(model.parameters()))
    with pytest.raises(UnavailableError, match="Adagrad"):
        applied("lora", new_state(workload))


def test_both_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="lora and qlora "):
        applied("lora+qlora")


def test_without_a_package_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.techniques.base.package.find_spec", lambda _module: None)
    cpu = torch.device("cpu")
    assert str(explain_inability(composed("lora")[0], cpu)).endswith(" peft")
    assert classify_inability(composed("lora")[0]) == "skip.package"
    assert "bitsandbytes" in str(explain_inability(composed("qlora")[0], cpu))


class Experts(nn.Module):
    """Three experts, each with two weights."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = (nn.Parameter(torch.randn(3, 8, 8) / 8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(torch.bmm(x.expand(3, -1, -1), self.up).relu(), self.down).mean(0)


def with_experts(dense: bool) -> Workload:
    return Workload(
        name="experts",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), Experts()) if dense else Experts(),
        build_optimizer=make_adamw,
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )


def test_experts_in_one_tensor_are_noted_as_left_out() -> None:
    """Two layers have adapters, and 3 x 2 weights of experts have none."""
    state = applied("lora", new_state(with_experts(dense=True))).state
    assert [name for name, module in state.model.named_modules() if hasattr(module, "lora_A")] == ["0", "1"]
    assert "2 of 8" in state.fact_notes["trainable_parameter_bytes"]
    assert applied("lora:targets=[01]", new_state(with_experts(dense=True))).state.fact_notes == {}
    with pytest.raises(UnavailableError, match=r"\b6\b.*\b2 tensors\b", check=has_id("skip.no_layers")):
        applied("lora", new_state(with_experts(dense=False)))


@pytest.mark.parametrize(
    ("config", "adapted", "experts"),
    [
        # Two blocks of four attention layers; in the first three dense ones, in the other 4 experts of two weights.
        ("Qwen3MoeConfig:decoder_sparse_step=2:num_experts=4:moe_intermediate_size=24", 2 * 4 + 3, 4 * 2),
        ("MixtralConfig:num_local_experts=3", 2 * 4, 2 * 3 * 2),
    ],
)
def test_layers_with_the_names_of_fused_experts_have_adapters(config: str, adapted: int, experts: int) -> None:
    sizes = "hidden_size=32:intermediate_size=48:num_hidden_layers=2:num_attention_heads=4:num_key_value_heads=2"
    text = f"hf:{config}:{sizes}:num_experts_per_tok=2:vocab_size=64:seq_len=8:batch_size=2"
    workload = load_workload(parse_workload(text, ()), device="cpu")
    state = applied("lora", new_state(workload)).state
    assert sum(hasattr(module, "lora_A") for module in state.model.modules()) == adapted
    assert f"{adapted} of {adapted + experts}" in state.fact_notes["trainable_parameter_bytes"]
    train(state, steps=1)
