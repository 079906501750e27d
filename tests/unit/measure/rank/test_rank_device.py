"""A rank takes its GPU before it joins the others, and takes none that another has; with two fake GPUs."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from perfkit.analysis.suite.variant_verdicts import get_emulation_reason
from perfkit.core.errors import UnavailableError
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.devices.machine.shared_gpu import EMULATED, SHARED_GPU
from perfkit.measure.rank import run_rank as ranks
from perfkit.measure.rank.rank_device import join_group, open_store, take_device
from perfkit.measure.rank.run_rank import run_rank
from perfkit.store.layout import RECORD_FILE, get_rank_folder
from perfkit.techniques.base.state import World
from tests.fixtures.figures import list_figures
from tests.fixtures.two_gpus import TwoGpus, two_gpus

_SUBJECT = re.compile(r"\d+ GPUs|\d+ visible|ranks? [\d, ]*\d(?: and \d| of \d)?|MIG-\w|[\da-f]{8}-[\w-]+")

# The UUIDs of the two fake GPUs.
FIRST, SECOND = (f"0000000{gpu}-aaaa-bbbb-cccc-dddddddddddd" for gpu in (0, 1))


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> TwoGpus:
    for name in ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NCCL_HOSTID", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")  # so that what a rank sets is undone
        monkeypatch.delenv(name)
    monkeypatch.delenv(SHARED_GPU, raising=False)
    return two_gpus(monkeypatch)


def store_of(others: dict[int, str]) -> dist.HashStore:
    """A store in which other ranks have said which GPU is theirs."""
    store = dist.HashStore()
    for rank, identity in others.items():
        store.set(f"perfkit/gpu/{rank}", identity)
    return store


def take(rank: int, identities: Sequence[str], *, nodes: int = 1) -> torch.device:
    """What a rank takes where the others have taken the GPUs of these identities; its own entry is not read."""
    size = len(identities)
    others = {other: identity for other, identity in enumerate(identities) if other != rank}
    launch = LaunchSpec(device="cuda", world_size=size, nodes=nodes)
    return take_device(launch, World(rank=rank, size=size, local_rank=rank), store_of(others)).device


def find_refusal_subjects(rank: int, identities: Sequence[str]) -> list[str]:
    """The counts, ranks and GPUs that a refusal names."""
    with pytest.raises(UnavailableError) as error:
        take(rank, identities)
    assert error.value.id == "skip.gpu"
    return _SUBJECT.findall(str(error.value))


def spec(world_size: int) -> RunSpec:
    return RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(device="cuda", world_size=world_size))


def record(folder: Path, rank: int) -> RankRecord:
    return read_json(get_rank_folder(folder, rank) / RECORD_FILE, RankRecord)


def test_a_rank_takes_its_own_gpu(gpus: TwoGpus) -> None:
    taken = take(1, [FIRST, SECOND])
    assert taken == torch.device("cuda", 1)
    assert (gpus.current, gpus.contexts) == (1, {1})


def test_a_rank_takes_its_own_xpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = two_gpus(monkeypatch, "xpu")
    world = World(rank=1, size=2, local_rank=1)
    taken = take_device(LaunchSpec(device="xpu", world_size=2), world, store_of({0: FIRST}))
    assert taken.device == torch.device("xpu", 1)
    assert (gpus.current, gpus.contexts) == (1, {1})


@pytest.mark.parametrize(
    ("kind", "backend"), [("cpu", "gloo"), ("cuda", "cpu:gloo,cuda:nccl"), ("xpu", "cpu:gloo,xpu:xccl")]
)
def test_the_group_has_the_backend_of_its_device(monkeypatch: pytest.MonkeyPatch, kind: str, backend: str) -> None:
    asked: list[str] = []
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **_: asked.append(backend))
    join_group(torch.device(kind), dist.HashStore(), World(rank=0, size=2))
    assert asked == [backend]


def test_on_a_cpu_there_is_nothing_to_take(gpus: TwoGpus) -> None:
    assert take_device(LaunchSpec(world_size=8), World(rank=7, size=8, local_rank=7)).device == torch.device("cpu")
    assert gpus.contexts == set()


def test_one_rank_sees_too_few_gpus(gpus: TwoGpus) -> None:
    launch, world = LaunchSpec(device="cuda", world_size=1), World(rank=0, size=1)
    with pytest.MonkeyPatch.context() as none:
        none.setattr(torch.cuda, "device_count", lambda: 0)
        with pytest.raises(UnavailableError, match="needs 1 GPUs, 0 visible"):
            take_device(launch, world)
    assert take_device(launch, world).device == torch.device("cuda", 0)


@pytest.mark.parametrize("rank", [0, 2])
def test_every_rank_says_which_ranks_would_share_a_gpu(gpus: TwoGpus, rank: int) -> None:
    assert find_refusal_subjects(rank, [FIRST, FIRST, FIRST]) == ["3 GPUs", "2 visible", "ranks 0, 1 and 2", FIRST]
    assert gpus.contexts == set()


def test_a_rank_takes_the_first_gpu_where_each_sees_its_own(gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Slurm's --gpus-per-task=1."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert take(2, ["gpu-of-0", "gpu-of-1", FIRST, "gpu-of-3"]) == torch.device("cuda", 0)
    assert gpus.contexts == {0}
    assert os.environ["LOCAL_RANK"] == "0"  # DeepSpeed takes it for the GPU's number


def test_gpus_bound_to_the_same_task_are_refused_though_there_are_enough(gpus: TwoGpus) -> None:
    assert find_refusal_subjects(1, [SECOND, SECOND]) == ["ranks 0 and 1", SECOND]


def test_a_rank_without_a_gpu_is_told_by_all(gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_refusal_subjects(0, [FIRST, ""]) == ["rank 1 of 2"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_refusal_subjects(1, [FIRST, ""]) == ["rank 1 of 2"]


def test_mig_instances_on_one_gpu_are_told_apart(gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers before CUDA 11.4 give them the UUID of the GPU around them."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-b")
    assert take(1, ["MIG-a", FIRST]) == torch.device("cuda", 0)
    assert find_refusal_subjects(1, ["MIG-b", FIRST])[-2:] == ["ranks 0 and 1", "MIG-b"]


@pytest.mark.parametrize(("rank", "index"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_ranks_share_gpus_in_turn_where_the_user_says_so(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, rank: int, index: int
) -> None:
    monkeypatch.setenv(SHARED_GPU, "1")
    assert take(rank, [FIRST, SECOND, FIRST, SECOND]) == torch.device("cuda", index)
    assert os.environ["NCCL_HOSTID"] == f"perfkit-{rank}"
    assert os.environ["NCCL_SOCKET_IFNAME"] == "lo"


def test_a_network_that_the_user_names_stays(gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_GPU, "1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    take(2, [FIRST, SECOND, FIRST])
    assert os.environ["NCCL_SOCKET_IFNAME"] == "eth0"


def test_on_several_machines_nccl_finds_its_network_itself(gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_GPU, "1")
    take(2, [FIRST, SECOND, FIRST], nodes=3)
    assert "NCCL_SOCKET_IFNAME" not in os.environ


def test_with_a_gpu_each_nothing_is_shared(gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_GPU, "1")
    assert take(1, [FIRST, SECOND]) == torch.device("cuda", 1)
    assert "NCCL_HOSTID" not in os.environ


def test_gpus_of_their_own_are_not_shared_though_each_rank_sees_one(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED_GPU, "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    launch, world = LaunchSpec(device="cuda", world_size=2), World(rank=1, size=2, local_rank=1)
    assert take_device(launch, world, store_of({0: SECOND})) == (torch.device("cuda", 0), False)
    assert take_device(launch, world, store_of({0: FIRST})) == (torch.device("cuda", 0), True)


@pytest.mark.parametrize(("size", "facts"), [(3, {"emulated": 1.0}), (2, {})])
def test_runs_that_share_a_gpu_are_marked(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int, facts: dict[str, float]
) -> None:
    def stop(*_: object) -> None:
        raise UnavailableError("far enough")

    monkeypatch.setenv(SHARED_GPU, "1")
    monkeypatch.setattr(ranks, "open_store", lambda *_: store_of({1: SECOND, 2: FIRST}))
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(ranks, "set_up_session", stop)
    run_rank(spec(size), tmp_path, rank=0, local_rank=0, report=lambda line: None)
    assert record(tmp_path, 0).facts == facts
    assert get_emulation_reason([record(tmp_path, 0)]) == (EMULATED if facts else "")


def test_a_run_with_too_few_gpus_is_skipped_and_joins_no_group(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: pytest.fail("a group was joined"))
    monkeypatch.setattr(ranks, "open_store", lambda *_: store_of({0: FIRST, 1: FIRST}))
    ended = run_rank(spec(3), tmp_path, rank=2, local_rank=2, report=lambda line: None)
    found = record(tmp_path, 2)
    assert (ended, found.status) == (RunStatus.SKIPPED, RunStatus.SKIPPED)
    assert found.reason.startswith("needs 3 GPUs, 2 visible")


def test_the_group_is_joined_on_the_ranks_own_gpu(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    joined: list[tuple[str, int]] = []

    def join(backend: str, **options: object) -> None:
        gpus.calls.append("join")
        joined.append((backend, gpus.current))
        assert options["rank"] == 1

    def stop(*_: object) -> None:
        raise UnavailableError("far enough")

    monkeypatch.setattr(ranks, "open_store", lambda *_: store_of({0: FIRST}))
    monkeypatch.setattr(dist, "init_process_group", join)
    monkeypatch.setattr(ranks, "set_up_session", stop)
    run_rank(spec(2), tmp_path, rank=1, local_rank=1, report=lambda line: None)
    assert gpus.calls == ["set_device 1", "join"]
    assert joined == [("cpu:gloo,cuda:nccl", 1)]
    assert gpus.contexts == {1}


def test_the_peak_of_a_failed_rank_is_that_of_its_own_gpu(
    gpus: TwoGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(ranks, "open_store", lambda *_: store_of({0: FIRST}))
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(ranks, "set_up_session", fail)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: (1 + gpus.current) * 2**30)
    run_rank(spec(2), tmp_path, rank=1, local_rank=1, report=lambda line: None)
    assert record(tmp_path, 1).status == RunStatus.OUT_OF_MEMORY
    assert list_figures(record(tmp_path, 1).reason) == ["2.00 GiB"]


def test_two_ranks_join_by_the_file_in_the_runs_folder(tmp_path: Path) -> None:
    stores = [open_store(tmp_path, World(rank=rank, size=2)) for rank in (0, 1)]
    stores[0].set("key", "value")
    assert stores[1].get("key") == b"value"
