"""The pool of batches: the same for every variant, whatever came before a pass."""

from collections import Counter
from dataclasses import replace

import torch

from perfkit.measure.rank.loaded_batches import LoadedBatches
from perfkit.measure.rank.loaded_data import BatchPool
from perfkit.workloads.loaders import LoaderChanges
from perfkit.workloads.workload import Batch, Workload
from tests.fixtures.workloads.loaded import build


def make_batch_of_any_length(generator: torch.Generator) -> Batch:
    length = int(torch.randint(1, 100, (), generator=generator))
    return {"ids": torch.zeros(2, length, dtype=torch.int64)}


def make_pool() -> BatchPool:
    workload: Workload = replace(build(), make_loader=None, make_batch=make_batch_of_any_length)
    return BatchPool(workload, seed=0, ranks=(0,), dtype=torch.float32, pinned=False)


def list_lengths(pool: BatchPool, first: int, steps: int, microbatches: int = 1) -> list[int]:
    return [batch["ids"].shape[1] for index in range(first, first + steps) for batch in pool.step(index, microbatches)]


def test_a_pass_begins_with_the_first_batch_after_any_number_of_steps() -> None:
    pool = make_pool()
    expected = list_lengths(pool, 0, 20)
    assert len(set(expected)) > 4
    for steps_before in (5, 7, 29):
        assert list_lengths(pool, steps_before, 20) != expected
        pool.rewind(steps_before)
        assert list_lengths(pool, steps_before, 20) == expected
        pool.rewind(0)


def test_steps_are_weighed_by_the_shapes_of_their_batches() -> None:
    pool = make_pool()
    lengths = list_lengths(pool, 0, 40)
    weighed = pool.weigh_steps(40, 1)
    assert {lengths[index]: count for index, count in weighed} == Counter(lengths)
    pairs = list(zip(lengths[::2], lengths[1::2], strict=True))
    assert {pairs[index]: count for index, count in pool.weigh_steps(20, 2)} == Counter(pairs)
    alike = BatchPool(
        replace(build(), make_loader=None, make_batch=lambda generator: {"x": torch.zeros(2, 3)}),
        seed=0,
        ranks=(0,),
        dtype=torch.float32,
        pinned=False,
    )
    assert alike.weigh_steps(20, 3) == [(0, 20)]


def test_microbatches_follow_each_other_from_there() -> None:
    pool = make_pool()
    expected = list_lengths(pool, 0, 6)
    pool.rewind(11)
    assert list_lengths(pool, 11, 3, microbatches=2) == expected


def test_a_loader_tells_that_its_batches_vary_and_goes_on() -> None:
    data = LoadedBatches(build(), seed=0, rank=0, dtype=torch.float32, loading=LoaderChanges())
    first = [batch["number"].tolist() for index in range(4) for batch in data.step(index, 1)]
    assert not data.varies
    data.rewind(4)
    assert [batch["number"].tolist() for batch in data.step(4, 1)] != first[:1]
    data.close()
