"""The caching allocator's history on a real GPU: balance to the byte, cost, and what NVML sees beside it."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import record_function

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.memory.process_memory import CONTEXT, RESIDUAL, build_process_balance
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.instruments.environment import read_environment
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.memory.allocator_history import record_allocator_history
from perfkit.instruments.memory.failed_request import parse_failed_request
from perfkit.instruments.sensors.process_memory import read_before_model, read_device_moment
from perfkit.instruments.sensors.sensors import Sensors
from perfkit.techniques.base.state import World
from perfkit.trace.memory.snapshot import read_snapshot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

ROUNDS = 15


@pytest.fixture
def step() -> Callable[[], None]:
    """A training step of a transformer block, that has run before."""
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, device="cuda")
    model = nn.Sequential(layer, nn.LayerNorm(1024, device="cuda"), nn.Linear(1024, 1000, device="cuda"))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(16, 512, 1024, device="cuda")

    def run() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        run()
    torch.cuda.synchronize()
    return run


def test_the_history_balances_with_the_allocators_counters(step: Callable[[], None], tmp_path: Path) -> None:
    path = tmp_path / "history.json.gz"
    torch.cuda.reset_peak_memory_stats()
    with record_allocator_history(path, torch.device("cuda", 0)):
        step()
        step()
        torch.cuda.synchronize()
    (found,) = (each for each in read_snapshot(path).allocations if each.device == "cuda:0")
    balance = build_memory_account(found)
    assert balance.peak_bytes == torch.cuda.max_memory_allocated()
    assert int(np.sum(found.reserved.size)) == torch.cuda.memory_reserved()


def test_the_recording_balances_with_the_allocators_counters(step: Callable[[], None]) -> None:
    """Also what autograd's thread allocates, which no range is around."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with AllocationProfiler(ops=False) as profiler, record_function("a step"):
        step()
        torch.cuda.synchronize()
    events = [event for event in profiler.recorded.allocations if event.device.type == "cuda"]
    allocated = before + np.cumsum([event.size for event in events])
    assert allocated.max() == torch.cuda.max_memory_allocated()
    assert allocated[-1] == torch.cuda.memory_allocated()


def test_the_history_costs_three_percent_at_most(step: Callable[[], None], tmp_path: Path) -> None:
    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    plain, recorded = [], []
    for _ in range(ROUNDS):
        plain.append(seconds())
        with record_allocator_history(tmp_path / "history.json.gz", torch.device("cuda", 0)):
            recorded.append(seconds())
    assert statistics.median(recorded) <= 1.03 * statistics.median(plain)


def test_the_process_balances_with_nvml(step: Callable[[], None]) -> None:
    device = torch.device("cuda", 0)
    sensors = Sensors(str(torch.cuda.get_device_properties(device).uuid))
    memory = read_before_model(device, sensors, World(rank=0, size=1, local_rank=0))
    step()
    end = read_device_moment(device, sensors)
    if not isinstance(end.process, Measurement):
        pytest.skip(end.process.reason)
    record = RankRecord(
        rank=0,
        world_size=1,
        status=RunStatus.OK,
        environment=read_environment(device),
        process_memory=type(memory)(at_context=memory.at_context, at_end=end),
    )
    peak = torch.cuda.max_memory_allocated()
    outside = build_process_balance(record)(peak)
    sizes = {share.category: share.bytes for share in outside.parts}
    assert peak + sum(sizes.values()) == outside.process_bytes
    assert 50 * 2**20 < sizes[CONTEXT] < 2 * 2**30
    assert abs(sizes[RESIDUAL]) < 2**30


def test_a_request_that_fails_is_read() -> None:
    size = 2**44
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    request = parse_failed_request(caught.value)
    assert request.bytes == pytest.approx(size, rel=0.001)


def test_a_history_that_the_program_records_is_left_alone(step: Callable[[], None], tmp_path: Path) -> None:
    memory: Any = torch.cuda.memory
    memory._record_memory_history(enabled="all", stacks="python", max_entries=10_000)
    try:
        step()
        torch.cuda.synchronize()
        before = len(memory._snapshot()["device_traces"][0])
        with record_allocator_history(tmp_path / "history.json.gz", torch.device("cuda", 0)):
            step()
            torch.cuda.synchronize()
        assert len(memory._snapshot()["device_traces"][0]) > before > 0
        step()
        torch.cuda.synchronize()
        assert len(memory._snapshot()["device_traces"][0]) > 2 * before
    finally:
        memory._record_memory_history(enabled=None)
    assert not (tmp_path / "history.json.gz").exists()
