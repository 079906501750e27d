"""Collectives as they are timed, of one rank in this process; two ranks are timed by `test_every_command`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from perfkit.devices.links import exchange
from perfkit.devices.links.exchange import Effort, measure


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    # A rank has no neighbour to send to.
    monkeypatch.setattr(exchange, "COLLECTIVES", {k: v for k, v in exchange.COLLECTIVES.items() if k != "send"})
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_every_collective_is_timed_at_every_size() -> None:
    taken = measure(torch.device("cpu"), Effort(repeats=2, budget_s=1e-3, windows=3, sizes=(1024, 4096)))
    assert {(each.collective, each.bytes) for each in taken} == {
        (name, size) for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all") for size in (1024, 4096)
    }
    assert all(len(each.repeats_s) == 2 and min(each.repeats_s) > 0 for each in taken)


@pytest.mark.usefixtures("alone")
def test_what_is_exchanged_does_not_grow_from_call_to_call() -> None:
    """An all-reduce that summed would soon multiply infinities, which are slower on some devices."""
    call = exchange.COLLECTIVES["all-reduce"](8, torch.device("cpu"))
    message = call.__closure__[0].cell_contents  # type: ignore[attr-defined]
    before = message.clone()
    call()
    assert torch.equal(message, before)
