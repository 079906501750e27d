"""Sparse gradients take what they take in real steps: indices, values, and the copies of optimizers."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.errors import UnavailableError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec, parse_variants
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.measure.rank.run_rank import run_rank
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.plan.rehearsal.sparse.index_values import IndexValues
from perfkit.plan.rehearsal.sparse.sparse_gradients import SparseGradients
from perfkit.store.memory_file import read_allocations
from tests.fixtures.workloads import sparse_tables

ROW, INDEX = 4 * 64, 8  # bytes of a row of 64 in fp32, and of its number
TABLES = f"{sparse_tables.__file__}:build"


def spec(accumulation: int = 1, techniques: str = "baseline", ranks: int = 1, **params: str) -> RunSpec:
    (variant,) = parse_variants(techniques)
    return RunSpec(
        techniques=variant,
        launch=LaunchSpec(world_size=ranks),
        workload=WorkloadSpec(name=TABLES, params=params),
        schedule=Schedule(warmup=1, max_warmup=1, timed=1, memory=1, trace=0, parity=1),
        passes=("memory",),
        accumulation=accumulation,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("optimizer", "table", "accumulation", "off"),
    [
        ("sparse_adam", "embedding", 1, 0.00005),
        ("sgd", "padded", 1, 0.0002),
        ("adagrad", "mean", 1, 0.00005),
        ("sgd", "sum", 1, 0.00005),
        ("sparse_adam", "embedding", 2, 0.001),  # how many rows two batches share is chance
    ],
)
def test_the_peak_is_that_of_a_real_step(
    optimizer: str, table: str, accumulation: int, off: float, tmp_path: Path
) -> None:
    asked = spec(accumulation, optimizer=optimizer, table=table)
    planned = build_memory_account(rehearse_step(asked).allocations)
    assert run_rank(asked, tmp_path, rank=0, local_rank=0, report=lambda _: None) == RunStatus.OK
    measured = build_memory_account(read_allocations(tmp_path / "rank0" / "memory.parquet"))
    assert planned is not None
    assert measured is not None
    assert planned.peak_phase == measured.peak_phase
    assert planned.peak_bytes == pytest.approx(measured.peak_bytes, rel=off)


@pytest.mark.slow
def test_a_gpus_sgd_scales_a_copy_of_the_values() -> None:
    """`values.mul(value)` in `add_out_dense_sparse_cuda` (ATen/native/sparse/cuda/SparseCUDATensorMath.cu)."""
    asked = spec(optimizer="sgd", table="embedding")
    planned = build_memory_account(rehearse_step(asked, resolve_entry("h100-sxm")).allocations)
    assert planned is not None
    assert planned.peak_phase == "optimizer"


@pytest.mark.slow
@pytest.mark.parametrize("technique", ["ddp", "zero3"])
def test_what_ranks_exchange_of_sparse_gradients_is_refused(technique: str) -> None:
    with pytest.raises(UnavailableError, match="ranks exchange sparse gradients"):
        rehearse_step(spec(techniques=technique, ranks=2))


def record_coalesce(*, on_gpu: bool) -> tuple[list[int], list[int]]:
    """Bytes that a gradient of 6 rows, 4 of them distinct, makes when coalesced; and those that are kept."""
    memory = FakeMemory()
    values, real = IndexValues(), torch.tensor([1, 2, 2, 3, 3, 4])
    sparse = SparseGradients(values, on_gpu=on_gpu)
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe(), sparse=sparse):
        table, ids = torch.zeros(50, 64, requires_grad=True), torch.zeros(6, dtype=torch.int64)
        values.add_batch({"ids": ids}, {"ids": real})
        F.embedding(ids, table, sparse=True).sum().backward()
        assert table.grad is not None
        memory.begin()
        coalesced = table.grad.coalesce()
        assert coalesced._nnz() == 4
        made = {event.address: event.size for event in memory.recorded.allocations if event.size > 0}
        freed = {event.address for event in memory.recorded.allocations if event.size < 0}
        del coalesced
    return sorted(made.values()), sorted(size for address, size in made.items() if address not in freed)


def test_a_cpu_keeps_room_for_all_rows_and_a_gpu_for_distinct_ones() -> None:
    _, kept = record_coalesce(on_gpu=False)
    assert kept == [6 * INDEX, 6 * ROW]
    _, kept = record_coalesce(on_gpu=True)
    assert kept == [6 * INDEX, 4 * ROW]


def test_backward_takes_the_parts_of_a_gradient_and_copies_none() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        table, ids = torch.zeros(50, 64, requires_grad=True), torch.zeros(6, dtype=torch.int64)
        loss = (F.embedding(ids, table, sparse=True) * 2).sum()
        memory.begin()
        loss.backward()
        assert [event.size for event in memory.recorded.allocations if event.size >= ROW] == [6 * ROW]


def test_an_op_of_unknown_memory_is_refused() -> None:
    with FakeTensorMode(), FakeMemory().record_allocations(OpScratchProbe()):
        table, ids = torch.zeros(50, 2, requires_grad=True), torch.zeros(7, dtype=torch.int64)
        F.embedding(ids, table, sparse=True).sum().backward()
        assert table.grad is not None
        with pytest.raises(UnavailableError, match="aten::mul"):
            table.grad * 2
        with pytest.raises(UnavailableError, match="2 sparse dimensions"):
            torch.sparse_coo_tensor(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(3), (4, 4))
