"""Tensor parallelism of gpt: volumes by hand on fake ranks, training on two real ones over Gloo."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from perfkit.core.errors import UnavailableError
from perfkit.core.spec import WorkloadSpec
from perfkit.measure.rank.run_rank import limit_gloo_workers
from perfkit.techniques.base.state import World
from perfkit.techniques.base.tensor_parallel import find_exchanges as exchanged_by
from perfkit.techniques.base.tensor_parallel import is_pattern_match, measure_split
from perfkit.workloads.gpt import SIZES, Gpt, GptShape
from perfkit.workloads.hf import HuggingFace
from perfkit.workloads.workload import TensorParallelSplit, Workload, make_model
from tests.fixtures.errors import has_id
from tests.fixtures.figures import list_figures
from tests.fixtures.workloads import gan
from tests.unit.techniques.planned_bytes import kind_and_phase, planned_bytes
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, relative_difference

LAYERS, WIDTH, TIME, BATCH, VOCAB = 1, 256, 64, 2, 256  # of a block of gpt nano; BATCH is a rank's of data parallelism
SPLIT = 2 * LAYERS + 1  # layers split by outputs: of attention, of the MLP, and the head; as many by inputs
NORMS = 2 * LAYERS + 1

RANKS = 2
# In the place of nano where it is trained.
SMALL = GptShape(layers=2, heads=2, width=64, positions=16, vocab=VOCAB, batch_size=BATCH)
SMALL_SPLIT = 2 * SMALL.layers + 1
LLAMA = Path(__file__).parents[3] / "fixtures" / "workloads" / "llama"
VARIANTS = ["tp", "tp:sp=false:loss=false", "ckpt+tp", "flash+tp"]


def exchanged(variant: str, ranks: int) -> dict[tuple[str, str], float]:
    """Bytes of collectives by their kind and phase, planned."""
    workload = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": TIME})
    with patch.dict(SIZES, nano=replace(SIZES["nano"], layers=LAYERS)):
        return planned_bytes(variant, workload, ranks, kind_and_phase)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_an_all_reduce_of_activations_for_every_split_layer(ranks: int) -> None:
    tokens = BATCH * ranks * TIME
    activations = 4 * tokens * WIDTH
    assert exchanged("tp:sp=false:loss=false", ranks) == {
        ("all-reduce", "forward"): SPLIT * activations,
        ("all-gather", "forward"): 4 * tokens * VOCAB,
        ("all-reduce", "backward"): SPLIT * activations,
    }


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_loss_parallelism_sends_three_numbers_a_token_in_place_of_its_logits(ranks: int) -> None:
    tokens = BATCH * ranks * TIME
    activations = 4 * tokens * WIDTH
    assert exchanged("tp:sp=false", ranks) == {
        ("all-reduce", "forward"): SPLIT * activations + 3 * 4 * tokens,
        ("all-reduce", "backward"): SPLIT * activations,
    }


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_sequence_parallelism_gathers_and_scatters_as_many_bytes(ranks: int) -> None:
    tokens = BATCH * ranks * TIME
    activations = 4 * tokens * WIDTH
    assert exchanged("tp", ranks) == {
        ("all-gather", "forward"): SPLIT * activations,
        ("reduce-scatter", "forward"): SPLIT * activations,
        ("all-reduce", "forward"): 3 * 4 * tokens,
        ("all-gather", "backward"): SPLIT * activations + 4 * TIME * WIDTH,  # and the gradient of the positions
        ("reduce-scatter", "backward"): SPLIT * activations,
        ("all-reduce", "backward"): NORMS * 2 * 4 * WIDTH,  # norms see a part of the sequence each
    }


def test_a_rank_holds_its_part_of_the_matrices_and_the_rest() -> None:
    with patch.dict(SIZES, nano=replace(SIZES["nano"], layers=LAYERS)):
        shape = Gpt().resolve_shape()
        workload = Gpt().build()
        model = make_model(workload)
    assert workload.tensor_parallel_plan is not None
    split = measure_split(
        model, workload.tensor_parallel_plan(model, TensorParallelSplit(2, sequence=True, loss=True)), 2
    )
    halves = LAYERS * (12 * WIDTH**2 + 7 * WIDTH) + VOCAB * WIDTH  # matrices, and biases of outputs that are split
    whole = LAYERS * 6 * WIDTH + 2 * WIDTH + shape.positions * WIDTH  # two norms and two biases a layer
    assert halves + whole == shape.parameters
    assert split.parameter_bytes == 4 * (halves // 2 + whole)
    assert (split.columns, split.rows) == (SPLIT, SPLIT)


def test_the_first_rank_has_the_larger_part() -> None:
    model = nn.Sequential(nn.Linear(3, 5, bias=False), nn.Linear(5, 3))
    split = measure_split(model, {"0": ColwiseParallel(), "1": RowwiseParallel()}, 2)
    assert split == (1, 1, 4 * (3 * 3 + 3 * 3 + 3))  # three of five rows, three of five columns, and the bias


def test_what_takes_no_gradient_is_exchanged_once() -> None:
    """The first layer's input is data: its gradient is not summed, and its bytes are not counted."""
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 3), nn.Linear(3, 4))
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel(), "2": ColwiseParallel()}
    found = exchanged_by(model, plan, lambda: model(torch.zeros(7, 3)))
    assert [(each.column, each.bytes) for each in found] == [(False, 4 * 7 * 3), (True, 4 * 7 * 3)]


@pytest.mark.parametrize(
    ("plan", "reason"), [({"2": ColwiseParallel()}, "splits 2, which the model does not have"), ({}, "splits no layer")]
)
def test_a_plan_that_splits_nothing_is_refused(plan: dict[str, ColwiseParallel], reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        measure_split(nn.Sequential(nn.Linear(3, 5)), plan, 2)


def test_a_pattern_stands_for_as_many_parts_as_it_has() -> None:
    assert is_pattern_match("blocks.11.mlp.0", "blocks.*.mlp.0")
    assert not is_pattern_match("blocks.11.mlp.0.weight", "blocks.*.mlp.0")
    assert not is_pattern_match("blocks.1.attention.mlp.0", "blocks.*.mlp.0")


@pytest.mark.parametrize(
    ("ranks", "options", "figures"),
    [
        (3, {}, ["4", "3"]),
        (4, {"seq_len": 30}, ["30", "4"]),
    ],
)
def test_what_does_not_divide_is_refused(ranks: int, options: dict[str, int], figures: list[str]) -> None:
    with pytest.raises(UnavailableError, check=has_id("skip.indivisible")) as refused:
        applied("tp", new_state(Gpt(**options).build(), world=World(size=ranks)))
    assert list_figures(str(refused.value)) == figures


@pytest.mark.parametrize(("workload", "reason"), [(WORKLOAD, "tensor_parallel_plan"), (gan.build(), "its own step")])
def test_a_workload_that_cannot_be_split_is_refused(workload: Workload, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        applied("tp", new_state(workload, world=World(size=2)))


def rank_main(rank: int, folder: str) -> None:
    with patch.dict(SIZES, nano=SMALL):
        workload = Gpt().build()
    limit_gloo_workers()
    with rank_of(rank, RANKS, folder) as (world, results):
        results["baseline"] = baseline = trained("baseline", world, None, workload)
        for variant in VARIANTS:
            results[variant] = trained(variant, world, baseline["facts"], workload)
        if find_spec("transformers"):
            llama = HuggingFace.parse(str(LLAMA), {"seq_len": 16}).build()
            results["llama baseline"] = trained("baseline", world, None, llama)
            results["llama"] = trained("tp:sp=false:loss=false", world, results["llama baseline"]["facts"], llama)
        with patch("perfkit.techniques.parallel.tp.parallelize_model"):
            results["sabotage"] = trained("tp", world, baseline["facts"], workload)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    imports = ["transformers.models.llama.modeling_llama"] if find_spec("transformers") else []
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), RANKS, imports)


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*VARIANTS, "llama"])
def test_losses_are_those_of_data_parallelism_and_claims_hold(ranks, variant):
    baseline = "baseline"
    if variant == "llama":
        pytest.importorskip("transformers")
        baseline = "llama baseline"
    for rank in ranks:
        means = [sum(losses) / RANKS for losses in zip(*(each[baseline]["losses"] for each in ranks), strict=True)]
        assert relative_difference(rank[variant]["losses"], means) <= rank[variant]["tolerance"]
        assert rank[variant]["checked"]
        assert [text for verdict, text in rank[variant]["checked"] if not verdict] == []


@pytest.mark.slow
def test_what_is_exchanged_is_known_from_a_forward_pass_to_the_byte(ranks):
    activations = 4 * BATCH * RANKS * SMALL.positions * SMALL.width
    for rank in ranks:
        assert rank["tp"]["facts"]["split_activation_bytes"] == 2 * SMALL_SPLIT * activations
        assert rank["tp"]["facts"]["collective_bytes:reduce-scatter"] == 2 * SMALL_SPLIT * activations
        assert (
            rank["tp"]["facts"]["collective_bytes:all-gather"]
            == 2 * SMALL_SPLIT * activations + 4 * SMALL.positions * SMALL.width
        )
        summed = rank["tp:sp=false:loss=false"]["facts"]["collective_bytes:all-reduce"]
        assert summed == 2 * SMALL_SPLIT * activations


@pytest.mark.slow
def test_no_claim_holds_where_nothing_is_split(ranks):
    for rank in ranks:
        assert rank["sabotage"]["losses"] == pytest.approx(rank["tp"]["losses"], rel=1e-5)
        assert [text for verdict, text in rank["sabotage"]["checked"] if verdict] == []
