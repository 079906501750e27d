"""The numbers of ranks that a plan goes on to."""

import pytest

from perfkit.core.spec import WorkloadSpec
from perfkit.plan.extrapolate_ranks import extrapolate_ranks
from perfkit.store.request import BenchRequest


def request(batch: int = 8, **options: object) -> BenchRequest:
    workload = WorkloadSpec(name="gpt", params={"batch_size": batch})
    return BenchRequest(workload=workload, variants=((),), device="cpu", device_count=0, cores=2, **options)


@pytest.mark.parametrize(
    ("asked", "planned"),
    [
        (request(world_sizes=(1, 2, 4)), (1, 2, 4, 16, 64, 256, 1024, 4096)),
        (request(world_sizes=(1, 1024)), (1, 1024, 4096)),
        (request(world_sizes=(1, 8192)), (1, 8192)),
        (request(world_size=2), (2,)),
        (request(), ()),
        (request(batch=8, world_sizes=(1, 2), scaling="strong"), (1, 2, 4, 8)),
        (request(batch=6, world_sizes=(1, 2), scaling="strong"), (1, 2)),
    ],
)
def test_it_goes_on_to_4096_ranks_or_as_far_as_a_batch_divides(asked: BenchRequest, planned: tuple[int, ...]) -> None:
    assert extrapolate_ranks(asked).sizes == planned
