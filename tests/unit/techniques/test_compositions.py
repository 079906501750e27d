"""Techniques that share four ranks of gpt: two parts of every layer, and two replicas or shards of each part."""

from unittest.mock import patch

import pytest

from perfkit.core.spec import WorkloadSpec
from perfkit.measure.rank.run_rank import limit_gloo_workers
from perfkit.techniques.base.tensor_parallel import measure_split
from perfkit.workloads.gpt import SIZES, Gpt, GptShape
from perfkit.workloads.workload import TensorParallelSplit, Workload, make_model
from tests.unit.techniques.planned_bytes import kind_and_ranks, planned_bytes
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import relative_difference

RANKS, PARTS = 4, 2
LAYERS, TIME, BATCH, WIDTH = 2, 16, 2, 64
SMALL = GptShape(
    layers=LAYERS, heads=2, width=WIDTH, positions=TIME, vocab=256, batch_size=BATCH
)  # in the place of nano
SPLIT = 2 * (2 * LAYERS + 1)  # layers: two of attention and of the MLP in a block, the table and the head
NORMS = 2 * LAYERS + 1

VARIANTS = ["tp2", "zero2+tp2", "zero3+ckpt+tp2", "amp+tp2", "tp2+pp2"]

# What ranks with the same part exchange: their own part of the parameters so many times.
OVER_DP = {
    "tp2": {"all-reduce": 1},
    "zero2+tp2": {"all-gather": 1, "reduce-scatter": 1},
    "zero3+tp2": {"all-gather": 2, "reduce-scatter": 1},
}


def small_gpt() -> Workload:
    with patch.dict(SIZES, nano=SMALL):
        return Gpt().build()


def held_bytes() -> int:
    """Of a rank's part of the parameters."""
    workload = small_gpt()
    model = make_model(workload)
    assert workload.tensor_parallel_plan is not None
    plan = workload.tensor_parallel_plan(model, TensorParallelSplit(PARTS, sequence=True, loss=True))
    return measure_split(model, plan, PARTS).parameter_bytes


def over_tp() -> dict[str, int]:
    """What the parts exchange with the samples of both, as in test_tp.py."""
    tokens = BATCH * PARTS * TIME
    activations = SPLIT * 4 * tokens * WIDTH
    return {
        "all-gather": activations + 4 * TIME * WIDTH,
        "reduce-scatter": activations,
        "all-reduce": 3 * 4 * tokens + NORMS * 2 * 4 * WIDTH,
    }


def planned(variant: str, ranks: int) -> dict[tuple[str, int], float]:
    """Bytes of collectives by their kind and number of ranks."""
    with patch.dict(SIZES, nano=SMALL):
        return planned_bytes(variant, WorkloadSpec(name="gpt"), ranks, kind_and_ranks)


@pytest.mark.parametrize(
    "variant",
    [each if each == "zero3+tp2" else pytest.param(each, marks=pytest.mark.nightly) for each in OVER_DP],
)
def test_each_dimension_has_its_own_volume_on_fake_ranks(variant: str) -> None:
    over_dp = {(kind, 4): times * held_bytes() for kind, times in OVER_DP[variant].items()}
    assert planned(variant, 8) == {(kind, 2): size for kind, size in over_tp().items()} | over_dp


@pytest.mark.nightly
def test_shards_of_parts_are_replicated_on_fake_ranks() -> None:
    held = held_bytes()
    over_shards = {"all-gather": 2 * held, "reduce-scatter": held}
    over_two = {(kind, 2): size + over_shards.get(kind, 0) for kind, size in over_tp().items()}
    assert planned("hsdp+tp2", 16) == over_two | {("all-reduce", 4): held / 2}


def rank_main(rank: int, folder: str) -> None:
    workload = small_gpt()
    limit_gloo_workers()
    with rank_of(rank, RANKS, folder) as (world, results):
        results["baseline"] = baseline = trained("baseline", world, None, workload)
        for variant in VARIANTS:
            results[variant] = trained(variant, world, baseline["facts"], workload)
        with patch("perfkit.techniques.parallel.tp.parallelize_model"):
            results["not split"] = trained("zero3+tp2", world, baseline["facts"], workload)
        with patch("perfkit.techniques.parallel.fully_shard.wrap_blocks"):
            results["not sharded"] = trained("zero3+tp2", world, baseline["facts"], workload)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), RANKS)


def mean_losses(ranks, variant):
    return [sum(losses) / RANKS for losses in zip(*(rank[variant]["losses"] for rank in ranks), strict=True)]


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_those_of_data_parallelism_and_claims_hold(ranks, variant):
    (tolerance,) = {rank[variant]["tolerance"] for rank in ranks}
    assert relative_difference(mean_losses(ranks, variant), mean_losses(ranks, "baseline")) <= tolerance
    for rank in ranks:
        assert rank[variant]["checked"]
        assert [text for verdict, text in rank[variant]["checked"] if not verdict] == []


@pytest.mark.nightly
@pytest.mark.parametrize("variant", ["tp2", "zero2+tp2"])
def test_volumes_over_both_dimensions_are_those_of_theory_to_the_byte(ranks, variant):
    over_dp = {kind: times * held_bytes() for kind, times in OVER_DP[variant].items()}
    expected = {f"{kind}:tp": size for kind, size in over_tp().items()}
    expected |= {f"{kind}:dp": size for kind, size in over_dp.items()}
    for rank in ranks:
        counted = {name.removeprefix("collective_bytes:"): size for name, size in rank[variant]["facts"].items()}
        assert {name: size for name, size in counted.items() if name[-3:] in (":tp", ":dp") and size} == expected


@pytest.mark.nightly
def test_two_ranks_share_their_samples(ranks):
    first, second, third, _ = (rank["tp2"]["losses"] for rank in ranks)
    assert first == pytest.approx(second, rel=1e-6)
    assert first != pytest.approx(third, rel=1e-6)


@pytest.mark.nightly
def test_what_one_technique_does_does_not_pass_for_the_other(ranks):
    """Where layers are not split no claim of tp holds, where nothing is sharded none of zero3."""
    for rank in ranks:
        for sabotage, technique, claims in (("not split", "tp:", 7), ("not sharded", "zero3:", 5)):
            verdicts = [verdict for verdict, text in rank[sabotage]["checked"] if text.startswith(technique)]
            assert verdicts == claims * [False]
