"""What takes several ranks, on two real ones over Gloo: one launch trains all variants and checks every claim."""

import math
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import WorkloadSpec, convert_params, parse_technique, parse_variants
from perfkit.instruments.facts.exchanged_bytes import ExchangedBytes
from perfkit.techniques.base.own_step import run_step
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel.ddp import Ddp, count_fewest_buckets
from perfkit.techniques.parallel.fully_shard import compute_largest_slice
from perfkit.techniques.parallel.gradient_hooks import POWERSGD_STARTS, count_low_rank_bytes
from perfkit.techniques.parallel.local_sgd import LocalSgd
from perfkit.techniques.parallel.mixed_precision import Policies
from perfkit.techniques.parallel.zero1 import compute_largest_share
from perfkit.techniques.parallel.zero23 import Zero3
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import gan, grouped
from tests.unit.techniques.facts import check_claims, state_bytes
from tests.unit.techniques.planned_bytes import planned_bytes
from tests.unit.techniques.ranks import Results, rank_of, results_of
from tests.unit.techniques.ranks import trained as trained_for
from tests.unit.techniques.tiny import (
    WORKLOAD,
    TinyModel,
    applied,
    batches,
    new_state,
    relative_difference,
    train,
)

pytestmark = pytest.mark.slow

LOW_RANK, LARGEST, IN_8_BITS = "ddp:hook=powersgd", "ddp:hook=topk:share=0.25", "ddp:hook=quantized"
RELAXED = ("local_sgd", "local_sgd:period=3:warmup=2", "amp:dtype=fp16+local_sgd", "ssp:staleness=2")
APPROXIMATED = (LOW_RANK, LARGEST, IN_8_BITS)  # other gradients, and so other losses

# Of parameters as they are gathered, and of gradients as they are reduced.
PRECISION = {
    "zero2:param_dtype=bf16": (2, 4),
    "zero3:param_dtype=bf16:reduce_dtype=fp32": (2, 4),
    "zero3:param_dtype=bf16:reduce_dtype=bf16": (2, 2),
    "zero3:reduce_dtype=bf16": (4, 2),
    "flash+ckpt+zero3:param_dtype=bf16": (2, 4),
}

trained = partial(trained_for, steps=4)  # cycles of the relaxed ones

VARIANTS = [
    "ddp:bucket_mb=1",
    "ddp:bucket_view=false",
    "ddp:hook=fp16",
    "ddp:hook=bf16",
    *APPROXIMATED,
    *RELAXED,
    "zero1",
    "zero2",
    "zero3",
    "amp+flash+ckpt+zero3",
    *PRECISION,
    "offload:to=disk",
    "amp:dtype=fp16+zero3+offload:what=optimizer:to=disk",
]
# Of mechanisms that the others have alone or in larger combinations.
PAIRS = [
    "ckpt+zero1",
    "ckpt+zero3",
    "ckpt:mode=selective+zero2",
    "amp:dtype=fp16",
    "amp:dtype=fp16+zero1",
    "amp:dtype=fp16+zero3",
    "offload:what=parameters:to=disk",
    "zero1+offload:what=optimizer:to=disk",
    "zero3+offload:to=disk",
]

# Of a workload with parameter groups, by the names and types of the modules that own the parameters.
GROUPED_PRECISION = ["zero2:param_dtype=bf16:reduce_dtype=bf16", "zero3:param_dtype=bf16"]
GROUPED = [*GROUPED_PRECISION, "zero1"]
GROUPED_PAIRS = ["zero3", "ckpt+zero1", "ckpt+zero2", "amp:dtype=fp16+zero1", "zero1+offload:what=optimizer:to=disk"]
# Of a step of the workload's own, with two models and two optimizers.
OWN_STEP = ["zero1", "zero2", "zero3", "ckpt+zero3", "amp:dtype=fp16+zero1", "amp:dtype=fp16+zero3"]

# Shards of different size: of one row a matrix the second rank has none.
UNEQUAL = "lora:rank=1+zero3"


def train_all(world: World, results: Results, variants: list[str], of_groups: list[str]) -> None:
    results["baseline"] = trained("baseline", world)
    for variant in variants:
        results[variant] = trained(variant, world, results["baseline"]["facts"])
    results["grouped baseline"] = trained("baseline", world, None, grouped.build())
    for variant in of_groups:
        results[f"grouped {variant}"] = trained(variant, world, results["grouped baseline"]["facts"], grouped.build())


def pairs_main(rank: int, folder: str) -> None:
    with rank_of(rank, 2, folder) as (world, results):
        train_all(world, results, PAIRS, GROUPED_PAIRS)


def rank_main(rank: int, folder: str) -> None:
    with rank_of(rank, 2, folder) as (world, results):
        train_all(world, results, VARIANTS, GROUPED)
        for variant in ["baseline", *OWN_STEP]:
            results[f"own step {variant}"] = own_steps(variant, rank)
        results["in backward"] = {stage: in_backward(stage, rank) for stage in ("zero2", "zero3")}
        if find_spec("peft"):
            results[UNEQUAL] = trained(UNEQUAL, world, results["baseline"]["facts"])
        results["overflow"] = overflow(rank)
        results["factors"] = factors(rank)
        results["apart"] = apart(world)
        results["feedback"] = feedback(world)
        results["accumulated"] = accumulated(world)
        results["buffers"] = [buffers_sent(variant, world) for variant in ("ddp", "local_sgd")]
        results["static graph"] = [
            train(applied(variant, new_state(world=world)).state) for variant in ("ddp", "ckpt+ddp:static_graph=true")
        ]
        with patch("perfkit.techniques.parallel.fully_shard.make_policies", make_no_policies):
            for variant in ("zero2:param_dtype=bf16", "zero3:param_dtype=bf16:reduce_dtype=bf16"):
                results[f"sabotaged {variant}"] = trained(variant, world, results["baseline"]["facts"])
        with patch("perfkit.techniques.parallel.fully_shard.make_policies", make_torchs_policies):
            results["reduced as torch does"] = trained("zero3:param_dtype=bf16", world, results["baseline"]["facts"])
        with patch("perfkit.techniques.parallel.ssp.make_late_update", lambda update, *_others: update):
            results["sabotaged ssp"] = trained("ssp", world, results["baseline"]["facts"])
        with patch("perfkit.techniques.parallel.ddp.wrap_in_ddp", not_replicated):
            results["sabotage"] = trained("ddp", world, results["baseline"]["facts"])


def not_replicated(state: TrainState, **_options) -> TrainState:
    """`ddp` that does nothing: every rank trains by itself."""
    state.gradients_reduced = True
    return state


def make_no_policies(*_dtypes: str | None) -> Policies:
    return Policies(MixedPrecisionPolicy(), MixedPrecisionPolicy())


def make_torchs_policies(*_dtypes: str | None) -> Policies:
    """Without a dtype for gradients, torch reduces them in that of the gathered parameters."""
    return Policies(*[MixedPrecisionPolicy(torch.bfloat16)] * 2)


def own_steps(variant: str, rank: int) -> dict:
    made = applied(variant, new_state(gan.build(), world=World(rank=rank, size=2, local_rank=rank)))
    losses = [run_step(made.state, batches(made.state, index)[0]).item() for index in range(4)]
    made.state.close()
    return {"losses": losses, "tolerance": made.parity.relative, "state": state_bytes(made.state)}


def in_backward(stage: str, rank: int) -> list[list[float]]:
    """The losses without and with updates in backward, where gradients are sharded before they are there."""
    world = World(rank=rank, size=2, local_rank=rank)
    return [train(applied(v, new_state(world=world)).state) for v in (stage, f"{stage}+optim_in_backward")]


def factors(rank: int) -> list[int]:
    """Bytes that PowerSGD gives to all-reduces in a step, also those of threads of gloo, and in theory."""
    made = applied("ddp:hook=powersgd:rank=2", new_state(world=World(rank=rank, size=2, local_rank=rank)))
    train(made.state, steps=POWERSGD_STARTS)
    sent = []
    all_reduce = dist.all_reduce

    def counted(tensor: torch.Tensor, *args, **options):
        sent.append(tensor.nbytes)
        return all_reduce(tensor, *args, **options)

    with patch.object(dist, "all_reduce", counted):
        train(made.state, steps=1)
    return [sum(sent), count_low_rank_bytes(made.state.model.parameters(), 2)]


def gradients_of(state: TrainState) -> torch.Tensor:
    """All gradients of one batch, with no update and nothing left behind."""
    state.backward(state.loss(batches(state, 0)[0]))
    found = torch.cat([parameter.grad.flatten().clone() for parameter in state.model.parameters()])
    state.zero_grad()
    return found


def apart(world: World) -> list[bool]:
    """After which steps of `local_sgd` the ranks have other parameters."""
    state = applied("local_sgd:period=3:warmup=2", new_state(world=world)).state
    found = []
    for step in range(9):
        train(state, steps=1, first=step)
        mine = next(state.model.parameters()).detach()
        both = [torch.empty_like(mine) for _ in range(2)]
        dist.all_gather(both, mine.contiguous())
        found.append(not torch.equal(*both))
    return found


def feedback(world: World) -> list[float]:
    """How far the mean of one and of twelve gradients by `topk` is from the whole one, relative to that."""
    whole = gradients_of(applied("ddp", new_state(world=world)).state)
    state = applied("ddp:hook=topk:share=0.1", new_state(world=world)).state
    sent = torch.stack([gradients_of(state) for _ in range(12)])
    return [((sent[:steps].mean(0) - whole).norm() / whole.norm()).item() for steps in (1, 12)]


def accumulated(world: World) -> list[float]:
    """Bytes of all-reduces of a step over two microbatches, as it is and without `no_sync`."""
    state = applied("ddp", new_state(world=world)).state
    found = []
    for _ in range(2):
        with ExchangedBytes(state.mesh.lines) as exchanged:
            train(state, steps=1, accumulation=2)
        found.append(exchanged.collect_facts()["collective_bytes:all-reduce"])
        state.no_sync = None
    return found


class Buffered(TinyModel):
    """With the running mean of what it sees, as batch normalization has."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean += 0.1 * (x.mean((0, 1)) - self.mean)
        return super().forward(x)


def buffers_sent(variant: str, world: World) -> float:
    """Bytes of broadcasts of a step."""
    state = applied(variant, new_state(replace(WORKLOAD, build_model=Buffered), world=world)).state
    train(state, steps=2)  # with the second one, ranks agree on new buckets
    with ExchangedBytes(state.mesh.lines) as exchanged:
        train(state, steps=1, first=2)
    return exchanged.collect_facts().get("collective_bytes:broadcast", 0)


def overflow(rank: int) -> int:
    """How many parameters change on this rank when only the other rank's shard has overflowed."""
    made = applied("amp:dtype=fp16+zero3", new_state(world=World(rank=rank, size=2, local_rank=rank)))
    before = [parameter.detach().to_local().clone() for parameter in made.state.model.parameters()]
    shard = next(made.state.model.parameters())
    train(made.state, steps=1, after_backward=lambda: rank == 0 and shard.grad.to_local().fill_(float("inf")))
    after = [parameter.detach().to_local() for parameter in made.state.model.parameters()]
    return sum(not torch.equal(*pair) for pair in zip(before, after, strict=True))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    imports = ["peft", "bitsandbytes"] if find_spec("peft") else []
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), 2, imports)


@pytest.fixture(scope="module")
def ranks_of_pairs(tmp_path_factory):
    return results_of(pairs_main, tmp_path_factory.mktemp("pairs"), 2)


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS if v not in APPROXIMATED + RELAXED] + [f"grouped {variant}" for variant in GROUPED]
)
def test_losses_are_the_baselines_on_every_rank(ranks, variant):
    baseline = "grouped baseline" if variant.startswith("grouped") else "baseline"
    for rank in ranks:
        assert relative_difference(rank[variant]["losses"], rank[baseline]["losses"]) <= rank[variant]["tolerance"]


@pytest.mark.parametrize("variant", VARIANTS + [f"grouped {variant}" for variant in GROUPED])
def test_claims_hold_on_every_rank(ranks, variant):
    for rank in ranks:
        assert rank[variant]["checked"]
        assert [text for verdict, text in rank[variant]["checked"] if not verdict] == []


@pytest.mark.nightly
@pytest.mark.parametrize("variant", PAIRS + [f"grouped {variant}" for variant in GROUPED_PAIRS])
def test_pairs_keep_the_losses_and_their_claims(ranks_of_pairs, variant):
    test_losses_are_the_baselines_on_every_rank(ranks_of_pairs, variant)
    test_claims_hold_on_every_rank(ranks_of_pairs, variant)


def test_claims_of_adapters_hold_of_unequal_shards(ranks):
    """Each rank's share is a fact of its own; the claims, of which a report checks the first rank's, name none."""
    if not find_spec("peft"):  # which takes seconds to import, and the ranks have done that
        pytest.skip("needs peft")
    for rank in ranks:
        checked = rank[UNEQUAL]["checked"]
        assert [text for verdict, text in checked if not verdict] == []
        assert sum(text.startswith("lora: ") for _, text in checked) == 3
    shares = [rank[UNEQUAL]["facts"]["adapter_bytes"] for rank in ranks]
    assert shares[0] > shares[1]


@pytest.mark.parametrize(
    ("variant", "bytes_a_number"),
    [("baseline", 4), ("ddp:bucket_view=false", 4), ("ddp:hook=fp16", 2), ("ddp:hook=bf16", 2)],
)
def test_gradients_are_all_reduced_once_to_the_byte(ranks, variant, bytes_a_number):
    numbers = sum(parameter.numel() for parameter in new_state().model.parameters())
    for rank in ranks:
        assert rank[variant]["facts"]["collective_bytes:all-reduce"] == bytes_a_number * numbers


@pytest.mark.parametrize(
    ("variant", "times"),
    [
        ("zero1", {"all-reduce": 1, "broadcast": 1}),
        ("zero2", {"reduce-scatter": 1, "all-gather": 1}),
        ("zero3", {"reduce-scatter": 1, "all-gather": 2}),
    ],
)
def test_zero_exchanges_gradients_once_and_parameters_once_or_twice_to_the_byte(ranks, variant, times):
    """ZeRO, arXiv 1910.02054, section 7: 2 times the parameters, and 3 times where they are sharded."""
    for rank in ranks:
        facts = rank[variant]["facts"].items()
        sent = {name: size for name, size in facts if name.startswith("collective_bytes:") and ":dp" not in name}
        whole = rank["baseline"]["facts"]["parameter_bytes"]
        assert {name: size for name, size in sent.items() if size} == {
            f"collective_bytes:{kind}": number * whole for kind, number in times.items()
        }


@pytest.mark.parametrize("variant", PRECISION)
def test_bytes_sent_are_of_the_dtypes_of_the_policy_and_shards_are_fp32(ranks, variant):
    gathered, reduced = PRECISION[variant]
    times = 1 if "zero2" in variant else 2
    numbers = sum(parameter.numel() for parameter in new_state().model.parameters())
    for rank in ranks:
        facts = rank[variant]["facts"]
        assert facts["collective_bytes:all-gather"] == times * gathered * numbers
        assert facts["collective_bytes:reduce-scatter"] == reduced * numbers
        assert facts["parameter_bytes"] == facts["gradient_bytes"] == 4 * numbers / 2
        assert facts["optimizer_state_bytes"] == pytest.approx(8 * numbers / 2, rel=0.01)
        if gathered == 2:
            assert rank[variant]["losses"] != rank["zero3"]["losses"]


def failed(rank, variant: str) -> list[str]:
    return [text.split(": ")[2].split()[0] for verdict, text in rank[variant]["checked"] if not verdict]


def test_policies_that_are_not_applied_are_found_out(ranks):
    for rank in ranks:
        assert failed(rank, "sabotaged zero2:param_dtype=bf16") == [
            "matmul_flops_share:bf16",
            "collective_bytes:all-gather",
        ]
        assert failed(rank, "sabotaged zero3:param_dtype=bf16:reduce_dtype=bf16") == [
            "matmul_flops_share:bf16",
            "collective_bytes:all-gather",
            "collective_bytes:reduce-scatter",
        ]
        assert failed(rank, "reduced as torch does") == ["collective_bytes:reduce-scatter"]


@pytest.mark.parametrize("variant", GROUPED_PRECISION)
def test_a_plan_has_the_bytes_that_ranks_exchange(ranks, variant):
    workload = WorkloadSpec(name=f"{grouped.__file__}:build")
    planned = planned_bytes(variant, workload, 2, lambda each: each.message.kind.value)
    for rank in ranks:
        for kind in ("all-gather", "reduce-scatter"):
            assert planned[kind] == rank[f"grouped {variant}"]["facts"][f"collective_bytes:{kind}"]


@pytest.mark.parametrize("other", ["amp", "bf16", "tf32"])
def test_mixed_precision_excludes_other_precisions(other):
    (techniques,) = parse_variants(f"{other}+zero3:param_dtype=bf16")
    with pytest.raises(UsageError, match=other):
        compose_techniques(techniques)
    (techniques,) = parse_variants(f"{other}+zero3:reduce_dtype=bf16")
    compose_techniques(techniques)


def test_bf16_parameters_are_not_cast_to_bf16():
    state = new_state(world=World(size=2))
    state.compute_dtype = "bf16"
    with pytest.raises(UnavailableError, match="param_dtype", check=has_id("skip.dtype")):
        Zero3(param_dtype="bf16").apply(state)
    state = new_state(replace(WORKLOAD, build_model=lambda: torch.nn.BatchNorm1d(4)), world=World(size=2))
    with pytest.raises(UnavailableError, match="running statistics"):
        Zero3(param_dtype="bf16").apply(state)
    with pytest.raises(ValueError, match="param_dtype"):
        Zero3(engine="deepspeed", param_dtype="bf16")


def test_ranks_that_train_by_themselves_are_found_out(ranks):
    for rank in ranks:
        [holds] = [text.split(": ")[2] for verdict, text in rank["sabotage"]["checked"] if verdict]
        assert holds.startswith("op_calls:torch.distributed.ddp.reducer::copy_bucket_to_grad ")


def test_a_static_graph_keeps_the_losses(ranks):
    for rank in ranks:
        plain, static = rank["static graph"]
        assert static == pytest.approx(plain, rel=1e-6)


def test_low_rank_gradients_are_other_gradients_of_fewer_bytes(ranks):
    for rank in ranks:
        assert rank[LOW_RANK]["losses"][-1] != rank["baseline"]["losses"][-1]
        sent, in_theory = rank["factors"]
        assert sent == in_theory < rank["baseline"]["facts"]["gradient_bytes"] / 4


@pytest.mark.parametrize(
    ("variant", "bytes_of"),
    [(LARGEST, lambda each: 8 * math.ceil(each.numel() / 4)), (IN_8_BITS, lambda each: each.numel() + 4)],
)
def test_what_is_gathered_is_what_all_ranks_send_to_the_byte(ranks, variant, bytes_of):
    """A number and its place take 8 bytes; 8 bits of each number come with a scale."""
    sent = sum(map(bytes_of, new_state().model.parameters()))
    for rank in ranks:
        assert rank[variant]["facts"]["collective_bytes:all-gather"] == 2 * sent
        assert rank[variant]["losses"][-1] != rank["baseline"]["losses"][-1]


def test_eight_bits_of_gradients_lose_little(ranks):
    for rank in ranks:
        assert relative_difference(rank[IN_8_BITS]["losses"], rank["baseline"]["losses"]) < 1e-3


def test_parameters_are_averaged_every_few_steps(ranks):
    """Steps 2, 5 and 8 end with an average; the first two average gradients."""
    assert ranks[0]["apart"] == [False, False, False, True, True, False, True, True, False]


def test_ranks_that_train_apart_keep_buffers_of_their_own(ranks):
    for rank in ranks:
        assert rank["buffers"] == [4 * 16, 0]


def test_ranks_train_alike_until_the_warm_up_is_over(ranks):
    for rank in ranks:
        done, baseline = rank["local_sgd:period=3:warmup=2"]["losses"], rank["baseline"]["losses"]
        assert done[:3] == pytest.approx(baseline[:3], rel=1e-6)
        assert done[3] != pytest.approx(baseline[3], rel=1e-6)


@pytest.mark.parametrize(("variant", "period"), [("local_sgd", 4), ("local_sgd:period=3:warmup=2", 3)])
def test_parameters_are_sent_once_a_period_to_the_byte(ranks, variant, period):
    for rank in ranks:
        whole = rank["baseline"]["facts"]["parameter_bytes"]
        assert rank[variant]["facts"]["collective_bytes:all-reduce"] == whole / period


def test_gradients_are_not_applied_before_they_are_old_enough(ranks):
    for rank in ranks:
        losses, baseline = rank["ssp:staleness=2"]["losses"], rank["baseline"]["losses"]
        assert losses[0] == baseline[0]
        assert (
            rank["ssp:staleness=2"]["facts"]["collective_bytes:all-reduce"]
            == rank["baseline"]["facts"]["gradient_bytes"]
        )


def test_gradients_that_are_not_late_are_found_out(ranks):
    """Nor are they summed then: neither of its claims holds."""
    for rank in ranks:
        assert [verdict for verdict, _ in rank["sabotaged ssp"]["checked"]] == [False, False]


def test_no_claim_of_local_sgd_holds_for_plain_data_parallel(ranks):
    state, facts = new_state(), ranks[0]["baseline"]["facts"]
    checked = check_claims(LocalSgd().claims(state), state, facts, facts)
    assert [verdict for verdict, _ in checked] == [False]


def test_what_topk_leaves_out_is_sent_later(ranks):
    for rank in ranks:
        once, twelve_times = rank["feedback"]
        assert once > 0.3
        assert twelve_times < once / 2


def test_microbatches_are_all_reduced_together(ranks):
    for rank in ranks:
        whole = rank["baseline"]["facts"]["gradient_bytes"]
        assert rank["accumulated"] == [whole, 2 * whole]


def test_no_claim_of_a_hook_holds_for_whole_gradients(ranks):
    """The baseline's own facts, with those that a hook sets when it has sent nothing."""
    for variant in ("ddp:hook=fp16", "ddp:hook=bf16", *APPROXIMATED):
        technique = convert_params(Ddp, "technique", "ddp", parse_technique(variant).params)
        state = new_state()
        facts = {**ranks[0]["baseline"]["facts"], "bytes_of_factors": 0.0}
        claims = [claim for claim in technique.claims(state) if claim.fact in facts]
        verdicts = [verdict for verdict, _ in check_claims(claims, state, facts, facts)]
        assert verdicts
        assert not any(verdicts)


@pytest.mark.parametrize("variant", OWN_STEP)
def test_an_own_steps_losses_are_the_baselines_and_its_optimizers_are_sharded(ranks, variant):
    for rank in ranks:
        done, baseline = rank[f"own step {variant}"], rank["own step baseline"]
        assert relative_difference(done["losses"], baseline["losses"]) <= done["tolerance"]
        assert 0.3 * baseline["state"] < done["state"] < 0.7 * baseline["state"]


def test_ranks_see_different_data(ranks):
    assert ranks[0]["baseline"]["losses"] != ranks[1]["baseline"]["losses"]


def test_without_a_technique_that_reduces_gradients_ddp_is_added(ranks):
    assert ranks[0]["baseline"]["techniques"] == ["ddp"]
    assert ranks[0]["offload:to=disk"]["techniques"] == ["offload", "ddp"]
    assert ranks[0]["zero1"]["techniques"] == ["zero1"]


@pytest.mark.parametrize("variant", ["zero1", "zero2", "zero3"])
def test_optimizer_state_is_halved(ranks, variant):
    halves = [rank[variant]["facts"]["optimizer_state_bytes"] for rank in ranks]
    whole = ranks[0]["baseline"]["facts"]["optimizer_state_bytes"]
    assert halves == pytest.approx([whole / 2] * 2, rel=0.01)


@pytest.mark.parametrize("variant", ["zero2", "zero3"])
def test_parameters_and_gradients_are_halved(ranks, variant):
    for rank in ranks:
        for fact in ("parameter_bytes", "gradient_bytes"):
            assert rank[variant]["facts"][fact] == pytest.approx(rank["baseline"]["facts"][fact] / 2, rel=0.01)


def test_no_claim_of_sharding_holds_for_plain_data_parallel(ranks):
    """The baseline's own facts against the claims of `zero3`: nothing is halved, and nothing is gathered."""
    state, facts = new_state(world=World(size=2)), dict(ranks[0]["baseline"]["facts"])
    facts["unsharded_parameter_bytes"] = facts["parameter_bytes"]
    checked = check_claims(Zero3().claims(state), state, facts, facts)
    assert [verdict for verdict, _ in checked] == [False] * len(checked)
    assert len(checked) >= 3


def test_one_ranks_overflow_is_every_ranks(ranks):
    assert [rank["overflow"] for rank in ranks] == [0, 0]


def test_factors_of_a_matrix_are_its_rows_and_columns():
    weight, square, bias, kernel = (torch.empty(shape) for shape in ((100, 50), (4, 4), (100,), (16, 8, 3, 3)))
    assert count_low_rank_bytes([weight], 2) == 4 * 2 * 150
    assert count_low_rank_bytes([square, bias], 1) == 4 * (16 + 100)  # factors of 8 numbers are no less than half of 16
    assert count_low_rank_bytes([kernel], 1) == 4 * (16 + 72)


def test_buckets_are_no_fewer_than_their_limit_allows():
    gradients = [torch.empty(100) for _ in range(10)]
    assert count_fewest_buckets(gradients, 1000) == 3  # 4,000 bytes in buckets of at most 1,400
    assert count_fewest_buckets([], 1000) == 0


def test_a_static_graph_and_microbatches_are_refused():
    state = new_state(world=World(size=2))
    state.accumulation = 2
    with pytest.raises(UnavailableError, match="static_graph=true"):
        Ddp(static_graph=True).apply(state)


def test_factors_of_several_buckets_are_refused_on_a_cpu():
    with pytest.raises(UnavailableError, match=r"hook=powersgd .*\bCPU\b"):
        Ddp(hook="powersgd", bucket_mb=1).apply(new_state(world=World(size=2)))


def test_whole_tensors_are_dealt_to_the_emptiest_rank():
    def compute(*groups: list[int], ranks: int = 2) -> float:
        return compute_largest_share([[(size, True) for size in group] for group in groups], ranks)

    assert compute([4, 3, 3, 2]) == 0.5  # 4 + 2 and 3 + 3
    assert compute([8, 1, 1]) == 0.8
    assert compute([1] * 6, ranks=3) == pytest.approx(1 / 3)
    assert compute([4, 1], [4, 1]) == 0.5  # 4 + 1 and 1 + 4: the second group goes on where the first ends


def test_a_tensor_without_a_gradient_is_dealt_and_has_no_state():
    assert compute_largest_share([[(8, False), (6, True), (2, True)]], 2) == 1.0


def test_slices_along_the_first_dimension():
    assert compute_largest_slice(torch.nn.Linear(3, 4), 2) == 0.5
    # 3 rows over 2 ranks: 2 rows of 5 numbers and 2 of the 3 biases, of 18 numbers
    assert compute_largest_slice(torch.nn.Linear(5, 3), 2) == pytest.approx(12 / 18)


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_updates_in_backward_take_reduced_shards(ranks, stage):
    for rank in ranks:
        plain, in_backward = rank["in backward"][stage]
        assert in_backward == plain
