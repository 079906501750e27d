"""Batches of a DataLoader: the same with any number of workers, with what was seen of it and how long it took."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import psutil
import pytest
import torch
from torch.utils.data import DataLoader

from perfkit.core.errors import UsageError
from perfkit.measure.rank import loaded_batches
from perfkit.measure.rank.loaded_batches import LoadedBatches
from perfkit.workloads.loaders import LoaderChanges
from perfkit.workloads.workload import Workload
from tests.fixtures.workloads.loaded import BATCH, SAMPLES, build

EPOCH = SAMPLES // BATCH
WAYS = (
    {},
    pytest.param({"num_workers": 1}, marks=pytest.mark.slow),
    pytest.param({"num_workers": 2, "prefetch_factor": 1}, marks=pytest.mark.slow),
    pytest.param({"num_workers": 2, "persistent_workers": True}, marks=pytest.mark.slow),
)


def loaded(workload: Workload | None = None, *, seed: int = 0, rank: int = 0, dtype=torch.float32, **options):
    return LoadedBatches(workload or build(), seed=seed, rank=rank, dtype=dtype, loading=LoaderChanges(options=options))


def numbers(data: LoadedBatches, steps: int = 2 * EPOCH + 1) -> list[list[int]]:
    return [batch["number"].tolist() for index in range(steps) for batch in data.step(index, 1)]


@pytest.mark.parametrize("options", WAYS)
def test_order_is_the_same_with_any_number_of_workers_and_from_every_beginning(options):
    expected = numbers(loaded())
    data = loaded(**options)
    try:
        assert numbers(data) == expected
        assert numbers(data) == expected
    finally:
        data.close()
    first, second = expected[:EPOCH], expected[EPOCH : 2 * EPOCH]
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(SAMPLES))
    assert first != second


def test_seed_and_rank_make_other_orders():
    assert numbers(loaded(), EPOCH) != numbers(loaded(seed=1), EPOCH) != numbers(loaded(rank=1), EPOCH)


@pytest.mark.parametrize("options", WAYS)
def test_the_process_draws_as_if_nothing_had_been_loaded(options):
    before = torch.get_rng_state()
    data = loaded(**options)
    numbers(data)
    data.close()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_what_is_seen_of_it():
    alone = loaded()
    numbers(alone)
    idle = {"loader_workers": 0.0, "loader_prefetched": 0.0, "loader_pinned": 0.0, "nonblocking_copies": 0.0}
    assert alone.collect_facts(non_blocking=True) == {**idle, "loader_processes": 0.0}
    new, same = loaded(num_workers=1), loaded(num_workers=2, persistent_workers=True, prefetch_factor=1)
    assert "loader_processes" not in same.collect_facts(non_blocking=False)
    for data in (new, same):
        numbers(data)
    assert new.collect_facts(False) == idle | {"loader_workers": 1.0, "loader_prefetched": 2.0, "loader_processes": 3.0}
    assert same.collect_facts(False) == idle | {
        "loader_workers": 2.0,
        "loader_prefetched": 2.0,
        "loader_processes": 2.0,
    }
    same.close()


def test_waiting_is_all_of_the_loaders_time(monkeypatch: pytest.MonkeyPatch):
    seconds = iter(range(100))
    monkeypatch.setattr(loaded_batches, "perf_counter", lambda: float(next(seconds)))
    data = loaded()
    numbers(data, 3)
    assert data.waited_s == 3.0


@pytest.mark.slow
def test_workers_stand_still_while_another_is_timed_and_may_use_all_cores():
    data = loaded(num_workers=1)
    cores = os.sched_getaffinity(0)
    try:
        numbers(data, 1)
        (worker,) = (psutil.Process(each.pid) for each in data._get_workers())
        data.suspend()
        _wait_until(lambda: worker.status() == psutil.STATUS_STOPPED)
        data.resume()
        _wait_until(lambda: worker.status() != psutil.STATUS_STOPPED)
        assert os.sched_getaffinity(worker.pid) == cores
    finally:
        data.close()
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def _wait_until(holds: Callable[[], bool]) -> None:
    """Signals take effect when the other process runs next."""
    limit = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_batches_come_in_the_dtype_of_the_parameters():
    (batch,) = loaded(dtype=torch.bfloat16).step(0, 1)
    assert batch["x"].dtype == torch.bfloat16
    assert batch["number"].dtype == torch.int64


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([1, 2], r"\blist\b.*torch\.utils\.data\.DataLoader"),
        (DataLoader([]), r"\bDataLoader\b.*\bno batch"),
        (DataLoader([1.0]), r"\bTensor\b.*\bdict\b"),
    ],
    ids=["list", "empty", "tensor"],
)
def test_what_is_no_loader_of_batches_is_told(made, said):
    data = loaded(replace(build(), make_loader=lambda generator: made))
    with pytest.raises(UsageError, match=rf"^make_loader .*\bloaded\b.*{said}"):
        list(data.step(0, 1))
