"""DeepSpeed as the engine of ZeRO; what takes ranks and DeepSpeed is skipped where it is not installed."""

from importlib.util import find_spec
from unittest.mock import patch

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.rank_record import SetupCost
from perfkit.core.spec import parse_variants
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.technique import PlanMode, Technique, classify_inability, explain_inability
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel import deepspeed_zero
from perfkit.techniques.parallel.deepspeed_zero import (
    SHARDED_GRADIENTS,
    compute_largest_slice_share,
    shard_with_deepspeed,
)
from tests.fixtures.workloads import gan
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import applied, batches, new_state, relative_difference, train

STAGES = [f"zero{stage}:engine=deepspeed" for stage in (1, 2, 3)]
VARIANTS = [*STAGES, "flash+zero3:engine=deepspeed"]
CPU = torch.device("cpu")


def technique_of(variant: str) -> Technique:
    (specs,) = parse_variants(variant)
    return compose_techniques(specs)[-1]


@pytest.mark.parametrize("variant", STAGES)
def test_without_the_package_it_says_what_to_install(variant):
    with patch("perfkit.techniques.base.package.find_spec", lambda _name: None):
        reason = explain_inability(technique_of(variant), CPU)
        assert classify_inability(technique_of(variant)) == "skip.package"
    assert (reason or "").endswith("pip install deepspeed")
    assert technique_of(variant.split(":")[0]).package() is None


@pytest.mark.parametrize("variant", STAGES)
def test_it_is_planned_with_a_remark(variant):
    planned = technique_of(variant).plannable()
    assert planned.how == PlanMode.APPLIED
    assert planned.reason


def test_fsdp2s_offload_is_not_deepspeeds():
    assert "FSDP2" in (technique_of("zero3:engine=deepspeed:offload=cpu").unavailable(CPU) or "")


def half() -> TrainState:
    state = new_state()
    state.model.bfloat16()
    return state


def frozen() -> TrainState:
    state = new_state()
    next(state.model.parameters()).requires_grad_(False)
    return state


@pytest.mark.parametrize(
    ("made", "reason"),
    [(lambda: new_state(gan.build()), "own step"), (half, "--dtype fp32"), (frozen, "frozen")],
)
def test_a_model_that_it_would_train_otherwise_is_refused(made, reason):
    with pytest.raises(UnavailableError, match=reason):
        shard_with_deepspeed(made(), 1)


def test_an_optimizer_that_has_not_been_tried_is_refused():
    state = new_state()
    with patch.object(deepspeed_zero, "_prepare_deepspeed"):
        shard_with_deepspeed(state, 1)
    (sharded,) = state.optimizer_changes
    with pytest.raises(UnavailableError, match="SGD"):
        sharded(torch.optim.SGD(state.model.parameters(), lr=0.1))


def test_what_it_compiles_is_a_cost_of_its_own():
    def compiled(state: TrainState) -> None:
        state.setup.append(SetupCost(name="DeepSpeed's extension, compiled", seconds=1000.0))

    technique = technique_of("zero1:engine=deepspeed")
    with (
        patch.object(deepspeed_zero, "_prepare_deepspeed", compiled),
        patch.object(deepspeed_zero, "_make_engine"),
        patch.object(deepspeed_zero, "_drive_engine"),
        patch("perfkit.techniques.apply.explain_inability", lambda *_: None),
        patch("perfkit.techniques.apply.perf_counter", iter([0.0, 1002.0, 0.0, 0.5]).__next__),
    ):
        setup = apply_all([technique], new_state(world=World(0, 2))).setup
    assert [(cost.name, cost.seconds) for cost in setup] == [
        ("DeepSpeed's extension, compiled", 1000.0),
        ("zero1", 2.0),
        ("optimizer", 0.5),
    ]


def test_a_tensor_in_two_slices_counts_for_both():
    assert compute_largest_slice_share([[4, 4]], 2) == 0.5
    assert compute_largest_slice_share([[3, 2, 3]], 2) == 5 / 8
    assert compute_largest_slice_share([[1, 6, 1]], 4) == 7 / 8
    assert compute_largest_slice_share([[4, 4], [2, 2]], 2) == 0.5


def rank_main(rank: int, folder: str) -> None:
    with rank_of(rank, 2, folder) as (world, results):
        results["baseline"] = trained("baseline", world)
        for variant in VARIANTS:
            results[variant] = trained(variant, world, results["baseline"]["facts"])
        results["left over"] = {variant: left_over(variant, world) for variant in STAGES}
        for variant in ("zero2:engine=deepspeed", "zero3:engine=deepspeed"):
            results[f"sabotaged {variant}"] = of_stage_1(variant, world, results["baseline"]["facts"])
        results["replicated"] = replicated(world, results["baseline"]["facts"])


def left_over(variant: str, world: World) -> list[list[float]]:
    """The losses without and with gradients of another batch that are cleared before the first step."""
    found = []
    for cleared in (False, True):
        state = applied(variant, new_state(world=world)).state
        if cleared:
            state.backward(state.loss(batches(state, 99)[0]))
            state.zero_grad()
        found.append(train(state, accumulation=2))
        state.close()
    return found


def of_stage_1(variant: str, world: World, baseline: dict[str, float]) -> dict:
    """The variant's claims where DeepSpeed only shards the optimizer's state."""
    engine = deepspeed_zero._make_engine
    with patch.object(deepspeed_zero, "_make_engine", lambda model, optimizer, _stage: engine(model, optimizer, 1)):
        return trained(variant, world, baseline)


def replicated(world: World, baseline: dict[str, float]) -> dict:
    """The claims of zero1 where every rank trains by itself and nothing is sharded."""
    state = new_state(world=world)
    reference = reference_facts(state)
    state.build_optimizers()
    train(state)
    claims = technique_of("zero1:engine=deepspeed").claims(state)
    return {"checked": check_claims(claims, state, measured_facts(state, reference), baseline)}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("deepspeed"), 2)


with_deepspeed = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs pip install deepspeed")


@pytest.mark.slow
@with_deepspeed
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_the_baselines_and_claims_hold(both, variant):
    for found in both:
        assert relative_difference(found[variant]["losses"], found["baseline"]["losses"]) <= 1e-5
        assert found[variant]["checked"]
        assert not [said for holds, said in found[variant]["checked"] if not holds]


@pytest.mark.slow
@with_deepspeed
@pytest.mark.parametrize("variant", STAGES)
def test_cleared_gradients_are_in_no_step(both, variant):
    for found in both:
        without, with_them = found["left over"][variant]
        assert without == with_them


@pytest.mark.slow
@with_deepspeed
def test_every_gradient_and_parameter_is_sent_once(both):
    for found in both:
        for variant in STAGES:
            facts = found[variant]["facts"]
            whole = facts["reference_parameter_bytes"]
            assert facts["collective_bytes:all-gather"] == whole
            norms = 4.0 if variant != STAGES[2] else 8.0  # of the gradients, and whether one is no number
            assert facts["collective_bytes:all-reduce"] + facts["collective_bytes:reduce-scatter"] == whole + norms


@pytest.mark.slow
@with_deepspeed
def test_switched_off_its_claims_fail(both):
    sabotaged = [f"sabotaged {variant}" for variant in STAGES[1:]]
    for found in both:
        failed = {
            name: [said.split(": ")[2].split()[0] for holds, said in found[name]["checked"] if not holds]
            for name in ("replicated", *sabotaged)
        }
        assert failed == {
            "replicated": ["optimizer_state_bytes"],
            sabotaged[0]: [SHARDED_GRADIENTS],
            sabotaged[1]: [SHARDED_GRADIENTS, "parameter_bytes"],
        }
