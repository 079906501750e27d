"""Collectives as they are timed, of one rank in this process; two ranks are timed by `test_every_command`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from perfkit.devices.links import time_collectives
from perfkit.devices.links.time_collectives import LinkEffort, measure_collectives


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    # A rank has no neighbour to send to.
    monkeypatch.setattr(
        time_collectives, "COLLECTIVES", {k: v for k, v in time_collectives.COLLECTIVES.items() if k != "send"}
    )
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_every_collective_is_timed_at_every_size() -> None:
    taken = measure_collectives(
        torch.device("cpu"), LinkEffort(repeats=2, budget_s=1e-3, windows=3, sizes=(1024, 4096))
    )
    assert {(each.collective, each.bytes) for each in taken} == {
        (name, size) for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all") for size in (1024, 4096)
    }
    assert all(len(each.repeats_s) == 2 and min(each.repeats_s) > 0 for each in taken)


SUMS = [("all-reduce", "all_reduce"), ("reduce-scatter", "reduce_scatter_tensor")]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("name", "function"), SUMS)
def test_sums_are_exchanged_that_do_not_grow_from_call_to_call(
    monkeypatch: pytest.MonkeyPatch, name: str, function: str
) -> None:
    """As NVLS takes them. Numbers that grew would soon be infinite, which is slower on some devices."""
    outputs = []

    def among_eight(output: torch.Tensor, given: torch.Tensor | None = None, *, op: object) -> None:
        assert op == dist.ReduceOp.SUM
        output.copy_(8 * (output if given is None else given[: len(output)]))
        outputs.append(output.clone())

    monkeypatch.setattr(dist, function, among_eight)
    call = time_collectives.COLLECTIVES[name](8, torch.device("cpu"))
    for _ in range(100):
        call()
    assert all(torch.equal(output, outputs[0]) for output in outputs)


def test_a_rank_takes_the_gpu_that_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(time_collectives, "measure_collectives", lambda *_: [])
    for name in ("init_process_group", "destroy_process_group"):
        monkeypatch.setattr(dist, name, lambda *_, **__: None)
    monkeypatch.setattr(time_collectives, "FileStore", lambda *_: None)
    time_collectives.main("store", 1, 2, "cuda", time_collectives.SHORT["cuda"], [0, 4])
    time_collectives.main("store", 1, 2, "cuda", time_collectives.SHORT["cuda"])
    assert [device.index for device in taken] == [4, 1]
