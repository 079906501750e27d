"""What ranks agree on, with two processes of a real process group."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore
from torch.multiprocessing.spawn import spawn

from perfkit.attach.host import world as worlds
from perfkit.attach.host.world import get_world, share_decision
from perfkit.core.errors import PerfkitError
from perfkit.techniques.base.state import World


def join(rank: int, folder: str) -> None:
    os.environ["LOCAL_RANK"] = str(rank)
    dist.init_process_group("gloo", store=FileStore(f"{folder}/store", 2), rank=rank, world_size=2)


def agree(rank: int, folder: str) -> None:
    join(rank, folder)
    world = get_world()
    assert world == World(rank=rank, size=2, local_rank=rank)
    found = share_decision(world, "folder", lambda: f"decided by {rank}")
    again = share_decision(world, "another", lambda: f"again by {rank}")
    Path(folder, f"rank{rank}").write_text(f"{found}, {again}")
    dist.barrier()
    dist.destroy_process_group()


def cannot_decide() -> str:
    raise OSError("no space left")


def disagree(rank: int, folder: str) -> None:
    join(rank, folder)
    began = time.monotonic()
    try:
        share_decision(get_world(), "folder", cannot_decide)
    except (OSError, PerfkitError) as error:
        Path(folder, f"rank{rank}").write_text(f"{type(error).__name__}: {error}")
    assert time.monotonic() - began < worlds._PATIENCE.total_seconds() / 2, "the others were told at once"
    dist.barrier()
    dist.destroy_process_group()


def of_two(function: Any, folder: Path) -> list[str]:
    """What each of two processes wrote down that ran `function(rank, folder)`."""
    spawn(function, args=(str(folder),), nprocs=2)
    return [(folder / f"rank{rank}").read_text() for rank in range(2)]


def test_a_process_alone() -> None:
    assert get_world() == World()
    assert share_decision(World(), "folder", lambda: "mine") == "mine"
    with pytest.raises(OSError, match="no space left"):
        share_decision(World(), "folder", cannot_decide)


@pytest.mark.slow
def test_all_ranks_get_what_the_first_decides(tmp_path: Path) -> None:
    assert of_two(agree, tmp_path) == ["decided by 0, again by 0"] * 2


@pytest.mark.nightly
def test_where_the_first_fails_the_others_hear_of_it_at_once(tmp_path: Path) -> None:
    first, second = of_two(disagree, tmp_path)
    assert first.startswith("OSError: ")
    assert second.startswith("PerfkitError: rank 0 ")


@pytest.mark.parametrize("local", ["", "three"])
def test_a_local_rank_that_is_no_number(local: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", local)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: 5)
    monkeypatch.setattr(dist, "get_world_size", lambda: 8)
    assert get_world() == World(rank=5, size=8, local_rank=0)


class Store:
    """A store of ranks that are not there."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def wait(self, keys: list[str], timeout: object) -> None:
        if keys[0] not in self.values:
            raise dist.DistStoreError("timed out")

    def get(self, key: str) -> bytes:
        return self.values[key].encode()


def test_each_round_of_elastic_ranks_decides_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    for restart in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restart)
        assert share_decision(World(0, 2), "folder", lambda restart=restart: f"run-{restart}") == f"run-{restart}"  # type: ignore[misc]
        assert share_decision(World(1, 2), "folder", lambda: "not asked") == f"run-{restart}"


def test_a_first_rank_that_never_says_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", Store)
    with pytest.raises(dist.DistStoreError):
        share_decision(World(1, 2), "folder", lambda: "not asked")
