"""Parts of sequences on real ranks over Gloo, with a stand-in for torch's ring of GPU kernels; what is refused."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import parse_variants
from perfkit.techniques.base.state import World
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel.cp import Cp
from perfkit.workloads.gpt import Gpt
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.ring import context_parallel
from tests.unit.techniques.tiny import BLOCKS, WORKLOAD, new_state, relative_difference

GPT = Gpt(seq_len=32, vocab=64).build()
TINY = replace(WORKLOAD, sequence_dimensions={"x": 1, "y": 1})

PARTS = {
    "gpt": ("cp:rotate=alltoall", "gpt", GPT),
    "tiny": ("cp", "tiny", TINY),
    "sharded": ("cp+ckpt+zero3", "tiny", TINY),
}


def rank_main(rank: int, folder: str) -> None:
    with (
        rank_of(rank, 2, folder) as (world, results),
        patch.object(Cp, "unavailable", lambda *_: None),
        patch("perfkit.techniques.parallel.cp.context_parallel", context_parallel),
    ):
        for name, workload in (("gpt", GPT), ("tiny", TINY)):
            results[f"baseline {name}"] = trained("baseline", world, None, workload)
        for name, (variant, of, workload) in PARTS.items():
            results[name] = trained(variant, world, results[f"baseline {of}"]["facts"], workload)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), 2)


@pytest.mark.slow
@pytest.mark.parametrize("variant", PARTS)
def test_the_mean_loss_of_parts_is_that_of_the_whole_batch(ranks, variant):
    """The baseline's is the mean over ranks as well, each of its own batch."""
    _, of, _ = PARTS[variant]
    whole, parts = (
        [sum(losses) / 2 for losses in zip(*(rank[each]["losses"] for rank in ranks), strict=True)]
        for each in (f"baseline {of}", variant)
    )
    assert relative_difference(parts, whole) < 1e-5
    assert ranks[0][variant]["losses"] != ranks[1][variant]["losses"]
    assert ranks[0][variant]["facts"]["attention_calls"] == {"gpt": 4, "tiny": BLOCKS}[of]


@pytest.mark.slow
@pytest.mark.parametrize("variant", PARTS)
def test_keys_values_and_their_gradients_are_sent_for_every_call(ranks, variant):
    for rank in ranks:
        checked = rank[variant]["checked"]
        assert len(checked) >= 2
        assert [text for verdict, text in checked if not verdict] == []


@pytest.mark.slow
def test_data_parallel_averages_the_gradients_of_parts(ranks):
    for rank in ranks:
        assert rank["tiny"]["techniques"] == ["cp", "ddp"]
        assert rank["sharded"]["techniques"] == ["cp", "ckpt", "zero3"]


@pytest.mark.slow
def test_no_claim_holds_for_plain_data_parallel(ranks):
    state, facts = new_state(), ranks[0]["baseline tiny"]["facts"]
    checked = check_claims(Cp().claims(state), state, facts | {"attention_calls": 4.0}, facts)
    assert [verdict for verdict, _ in checked] == [False, False]


ATTENTION = F.scaled_dot_product_attention


@pytest.mark.parametrize("ended_by", ["backward", "close"])
def test_sequences_stay_in_parts_until_backward_is_over_or_training_is(ended_by):
    """Recomputation in backward meets the same attention; a forward pass without backward leaves nothing behind."""
    state = new_state(TINY, world=World(size=2))
    with (
        patch("perfkit.techniques.parallel.cp.context_parallel", context_parallel),
        patch("perfkit.techniques.base.mesh.RankMesh.get_submesh", lambda *_of: OnlyRank()),
        patch("tests.unit.techniques.ring.Gathered.apply", lambda part: part),
        patch("tests.unit.techniques.ring.dist.get_rank", lambda: 0),
    ):
        state = Cp().apply(state)
        batch = {"x": torch.randn(2, 32, 16), "y": torch.randn(2, 32, 16)}
        state.loss(batch)
        loss = state.loss(batch)
        assert [tuple(tensor.shape) for tensor in batch.values()] == [(2, 32, 16)] * 2
        assert F.scaled_dot_product_attention is not ATTENTION
        if ended_by == "backward":
            state.backward(loss)
            assert F.scaled_dot_product_attention is ATTENTION
        state.close()
        assert F.scaled_dot_product_attention is ATTENTION
    assert state.batches_of_ranks == (0, 1)


class OnlyRank:
    def size(self):
        return 1

    def get_local_rank(self):
        return 0


def test_it_is_for_gpus():
    assert "_scaled_dot_product_flash_attention_for_cpu" in (Cp().unavailable(torch.device("cpu")) or "")
    assert Cp().unavailable(torch.device("cuda")) is None


@pytest.mark.parametrize(
    ("workload", "ranks", "reason"),
    [
        (WORKLOAD, 2, "sequence_dimensions"),
        (TINY, 3, r"\b32 tokens .*\b6 pieces"),
        (replace(WORKLOAD, sequence_dimensions={"z": 1}), 2, r"\btiny has no z$"),
        (replace(WORKLOAD, sequence_dimensions={"x": 1, "y": 2}), 2, r"\btiny .*lengths: "),
        (replace(TINY, use_sdpa=lambda _model: None), 2, "torch.nn.functional.scaled_dot_product_attention"),
    ],
    ids=["dimensions", "indivisible", "tensor", "lengths", "sdpa"],
)
def test_what_cannot_be_dealt_is_refused(workload, ranks, reason):
    with pytest.raises(UnavailableError, match=reason):
        Cp().apply(new_state(workload, world=World(size=ranks)))


@pytest.mark.parametrize("other", ["tp", "flash", "distill", "local_sgd", "ssp"])
def test_what_does_not_go_is_refused(other):
    (specs,) = parse_variants(f"cp+{other}")
    with pytest.raises(UsageError, match="cp"):
        compose_techniques(specs)
