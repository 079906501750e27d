"""A rank takes its GPU before it joins the others, and takes none where there are too few; with two fake GPUs."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from perfkit.errors import UnavailableError
from perfkit.files import read_json
from perfkit.measure import rank as ranks
from perfkit.measure.placing import take_device
from perfkit.measure.rank import run_rank
from perfkit.record import RankRecord, Status
from perfkit.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.store.layout import RECORD_FILE, rank_folder
from perfkit.techniques.state import World
from tests.fixtures.two_gpus import TwoGpus, two_gpus


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> TwoGpus:
    return two_gpus(monkeypatch)


def spec(world_size: int) -> RunSpec:
    return RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(device="cuda", world_size=world_size))


def record(folder: Path, rank: int) -> RankRecord:
    return read_json(rank_folder(folder, rank) / RECORD_FILE, RankRecord)


def test_a_rank_takes_its_own_gpu(gpus: TwoGpus) -> None:
    taken = take_device(LaunchSpec(device="cuda", world_size=2), World(rank=1, size=2, local_rank=1))
    assert taken == torch.device("cuda", 1)
    assert (gpus.current, gpus.contexts) == (1, {1})


def test_on_a_cpu_there_is_nothing_to_take(gpus: TwoGpus) -> None:
    assert take_device(LaunchSpec(world_size=8), World(rank=7, size=8, local_rank=7)) == torch.device("cpu")
    assert gpus.contexts == set()


@pytest.mark.parametrize("rank", [0, 2])
def test_every_rank_says_that_there_are_too_few_gpus(gpus: TwoGpus, rank: int) -> None:
    with pytest.raises(UnavailableError, match="needs 3 GPUs, 2 visible"):
        take_device(LaunchSpec(device="cuda", world_size=3), World(rank=rank, size=3, local_rank=rank))
    assert gpus.contexts == set()


def test_a_run_with_too_few_gpus_is_skipped_and_joins_no_group(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: pytest.fail("a group was joined"))
    ended = run_rank(spec(3), tmp_path, rank=2, local_rank=2, report=lambda line: None)
    found = record(tmp_path, 2)
    assert (ended, found.status, found.reason) == (Status.SKIPPED, Status.SKIPPED, "needs 3 GPUs, 2 visible")


def test_the_group_is_joined_on_the_ranks_own_gpu(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def join(backend: str, **options: object) -> None:
        gpus.calls.append(f"join {backend} on {gpus.current}")
        assert options["rank"] == 1

    def stop(*_: object) -> None:
        raise UnavailableError("far enough")

    monkeypatch.setattr(dist, "init_process_group", join)
    monkeypatch.setattr(ranks, "set_up", stop)
    run_rank(spec(2), tmp_path, rank=1, local_rank=1, report=lambda line: None)
    assert gpus.calls == ["set_device 1", "join cpu:gloo,cuda:nccl on 1"]
    assert gpus.contexts == {1}


def test_the_peak_of_a_failed_rank_is_that_of_its_own_gpu(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(ranks, "set_up", fail)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: (1 + gpus.index(device)) * 2**30)
    monkeypatch.setattr(gpus, "set_device", lambda device: None)
    run_rank(spec(2), tmp_path, rank=1, local_rank=1, report=lambda line: None)
    assert record(tmp_path, 1).reason == "out of memory while setting up, peak 2.00 GiB allocated"
