"""FSDP1 as the engine of ZeRO, on two real ranks over Gloo and on fake ones."""

import pytest

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import parse_variants
from perfkit.instruments.facts.training_norms import watch_gradient_norm
from perfkit.techniques.base.technique import PlanMode, Technique
from perfkit.techniques.base.unwrapped_modules import unwrap_modules
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel.zero23 import Zero2, Zero3
from tests.fixtures.workloads import gan
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import applied, batches, new_state, relative_difference, train

RANKS = 2
VARIANTS = (
    "zero3:engine=fsdp1",
    "zero2:engine=fsdp1",
    "ckpt+zero3:engine=fsdp1",
    "zero3:engine=fsdp1:param_dtype=bf16",
    "ckpt+zero2:engine=fsdp1:param_dtype=bf16:reduce_dtype=bf16",
)


def technique_of(variant: str) -> Technique:
    (specs,) = parse_variants(variant)
    return compose_techniques(specs)[-1]


def rank_main(rank: int, folder: str) -> None:
    with rank_of(rank, RANKS, folder) as (world, results):
        results["baseline"] = baseline = trained("baseline", world)
        for variant in VARIANTS:
            results[variant] = trained(variant, world, baseline["facts"])
        state = new_state(world=world)
        modules = [name for name, _ in state.model.named_modules()]
        sharded = applied("ckpt+zero3:engine=fsdp1", state).state
        with unwrap_modules(sharded.model):
            unwrapped = [name for name, _ in sharded.model.named_modules()]
        results["names"] = [modules, unwrapped]
        for variant in ("baseline", "zero3:engine=fsdp1"):
            watched = applied(variant, new_state(world=world)).state
            with watch_gradient_norm(watched) as facts:
                train(watched, 1)
            results[f"norm of {variant}"] = facts["gradient_norm_share"]
        state = applied("zero2:engine=fsdp1:param_dtype=bf16", new_state(world=world)).state
        (batch,) = batches(state, seed=0)
        for _ in range(2):
            loss = state.loss(batch)
        state.backward(loss)
        results["reduced"] = [each.grad is not None for each in state.model.parameters() if each.numel()]
        plain = applied("baseline", new_state(world=world)).state
        plain.wrapped = sharded.wrapped
        facts = {**baseline["facts"], "collective_bytes:reduce-scatter": 0.0, "collective_bytes:all-gather": 0.0}
        results["sabotage"] = check_claims(Zero3(engine="fsdp1").claims(plain), plain, facts, baseline["facts"])


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), RANKS)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_the_baselines_and_claims_hold(ranks, variant):
    for rank in ranks:
        done, baseline = rank[variant], rank["baseline"]
        assert relative_difference(done["losses"], baseline["losses"]) <= done["tolerance"]
        assert done["checked"]
        assert [text for verdict, text in done["checked"] if not verdict] == []


@pytest.mark.slow
def test_the_gradients_of_all_slices_are_those_of_the_model(ranks):
    whole, sliced = (
        sum(rank[f"norm of {variant}"] ** 2 for rank in ranks) for variant in ("baseline", "zero3:engine=fsdp1")
    )
    assert sliced == pytest.approx(whole, rel=1e-4)


@pytest.mark.slow
def test_a_forward_pass_without_backward_loses_no_gradients(ranks):
    for rank in ranks:
        assert rank["reduced"]
        assert all(rank["reduced"])


@pytest.mark.slow
def test_the_workloads_code_sees_its_own_modules(ranks):
    for rank in ranks:
        before, unwrapped = rank["names"]
        assert unwrapped == before


@pytest.mark.slow
def test_plain_data_parallel_does_not_pass_for_it(ranks):
    assert ranks[0]["sabotage"]
    assert [text for verdict, text in ranks[0]["sabotage"] if verdict] == []


@pytest.mark.parametrize("variant", ["zero2:engine=fsdp1", "zero3:engine=fsdp1"])
def test_it_is_planned_with_a_remark(variant):
    planned = technique_of(variant).plannable()
    assert planned.how == PlanMode.APPLIED
    assert planned.reason
    assert technique_of(variant).package() is None


def test_what_it_has_not_been_tried_with_is_refused():
    with pytest.raises(UsageError, match="FSDP1 has not been tried with lora"):
        technique_of("lora+zero3:engine=fsdp1")
    assert "FSDP1" in (Zero2(engine="fsdp1", offload="cpu").unavailable(new_state().device) or "")


def test_a_step_of_several_models_is_skipped():
    with pytest.raises(UnavailableError, match="FSDP1"):
        Zero3(engine="fsdp1").apply(new_state(gan.build()))
