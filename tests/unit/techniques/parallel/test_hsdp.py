"""Two replicas of two shards, on four real ranks over Gloo."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from perfkit.core.errors import UnavailableError
from perfkit.core.spec import WorkloadSpec
from perfkit.techniques.base.state import World
from perfkit.techniques.parallel.hsdp import Hsdp
from perfkit.workloads.gpt import SIZES
from tests.fixtures.torch_features import NEEDS_DIVIDED_MESHES
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.planned_bytes import kind_and_ranks, planned_bytes
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import applied, new_state, relative_difference, train

RANKS = 4
VARIANTS = ["hsdp", "ckpt+hsdp"]
# Of groups of ranks as well, and as cheap here as the ranks are there.
IN_GROUPS = {"local_sgd:group=2": 1 + 1 / 4, "local_sgd:group=2:within=2": 1 / 2}


def rank_main(rank: int, folder: str) -> None:
    with rank_of(rank, RANKS, folder) as (world, results):
        results["baseline"] = baseline = trained("baseline", world)
        for variant in [*VARIANTS, *IN_GROUPS]:
            results[variant] = trained(variant, world, baseline["facts"])
        results["in backward"] = [
            train(applied(variant, new_state(world=world)).state) for variant in ("hsdp", "hsdp+optim_in_backward")
        ]
        plain = applied("baseline", new_state(world=world)).state
        facts = {**baseline["facts"], "unsharded_parameter_bytes": baseline["facts"]["parameter_bytes"]}
        results["sabotage"] = check_claims(Hsdp().claims(plain), plain, facts, facts)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), RANKS)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_the_baselines_and_claims_hold(ranks, variant):
    for rank in ranks:
        done, baseline = rank[variant], rank["baseline"]
        assert relative_difference(done["losses"], baseline["losses"]) <= done["tolerance"]
        assert done["checked"]
        assert [text for verdict, text in done["checked"] if not verdict] == []


@pytest.mark.nightly
def test_a_rank_holds_half_and_the_volume_is_that_of_two_groups(ranks):
    """Of all bytes twice gathered and once scattered in a group of two, and of half of them summed over replicas."""
    whole = ranks[0]["baseline"]["facts"]["parameter_bytes"]
    for rank in ranks:
        facts = rank["hsdp"]["facts"]
        for fact in ("parameter_bytes", "gradient_bytes"):
            assert facts[fact] == whole / 2
        assert facts["collective_bytes:all-gather"] == 2 * whole
        assert facts["collective_bytes:reduce-scatter"] == whole
        assert facts["collective_bytes:all-reduce"] == whole / 2


@pytest.mark.nightly
@pytest.mark.parametrize(("variant", "times"), IN_GROUPS.items())
def test_groups_average_more_often_than_all(ranks, variant, times):
    whole = ranks[0]["baseline"]["facts"]["parameter_bytes"]
    for rank in ranks:
        assert rank[variant]["facts"]["collective_bytes:all-reduce"] == whole * times
        assert [text for verdict, text in rank[variant]["checked"] if not verdict] == []


@pytest.mark.nightly
def test_plain_data_parallel_does_not_pass_for_it(ranks):
    """It sums gradients over all ranks, and not over replicas."""
    assert ranks[0]["sabotage"]
    assert [text for verdict, text in ranks[0]["sabotage"] if verdict] == []


@pytest.mark.nightly
def test_updates_in_backward_take_gradients_of_all_replicas(ranks):
    for rank in ranks:
        plain, in_backward = rank["in backward"]
        assert in_backward == plain


@pytest.mark.parametrize(
    ("shard", "size", "reason"),
    [(3, 8, "hsdp:shard=3 needs a multiple of 3 ranks"), (4, 4, "hsdp:shard=4 needs at least 8 ranks")],
)
def test_a_mesh_that_is_none_is_refused(shard, size, reason):
    with pytest.raises(UnavailableError, match=reason):
        applied(f"hsdp:shard={shard}", new_state(world=World(size=size)))


@NEEDS_DIVIDED_MESHES
def test_it_is_planned_as_it_runs():
    block = replace(SIZES["nano"], layers=1)
    parameters = 4 * block.parameters
    with patch.dict(SIZES, nano=block):
        planned = planned_bytes(
            "hsdp", WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 64}), 8, kind_and_ranks
        )
    assert planned == {
        ("all-gather", 2): 2 * parameters,
        ("reduce-scatter", 2): parameters,
        ("all-reduce", 4): parameters / 2,
    }
