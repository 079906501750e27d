"""What the account says of runs on two ranks, against what data parallelism and ZeRO hold in theory."""

from pathlib import Path

import pytest

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import Ints
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.workloads.gpt import Gpt
from tests.fixtures.memory_oracles.gpt_memory import FP32, Training, standing
from tests.fixtures.memory_oracles.memory_runs import accounts, over_time, run_memory
from tests.fixtures.memory_oracles.zero_memory import buffers, gathered, gradients, held, peak

RANKS = 2
SHAPE = Gpt(batch_size=1).resolve_shape()
SEQ_LEN = 32
TECHNIQUES = {"ddp": "baseline@2", "zero1": "zero1@2", "zero2": "zero2@2", "zero3": "zero3@2"}
SHARDED = ("zero2", "zero3")
CAST = "zero3:param_dtype=bf16"
SCALARS = 256  # bytes: losses, counters, divisors of a few bytes each, which no closed form counts

Series = dict[tuple[str, int], dict[str, Ints]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sharding") / "suite"


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, MemoryAccount]:
    variants = ",".join(("zero1", "zero2", "zero3", CAST))
    return accounts(run_memory(f"gpt:batch_size=1:seq_len={SEQ_LEN}", variants, folder, threads=1))


@pytest.fixture(scope="module")
def series(folder: Path, found: dict[str, MemoryAccount]) -> Series:
    """By technique and rank."""
    assert found.keys() == {*TECHNIQUES.values(), f"{CAST}@2"}
    return {(name, rank): over_time(folder, TECHNIQUES[name], rank) for name in TECHNIQUES for rank in range(RANKS)}


@pytest.fixture(params=TECHNIQUES)
def technique(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=range(RANKS))
def rank(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


def test_state_is_exact(found: dict[str, MemoryAccount], technique: str) -> None:
    account = found[TECHNIQUES[technique]]
    shares = {share.category: share.bytes for share in account.categories}
    expected = {**standing(Training(shape=SHAPE, seq_len=SEQ_LEN)), **held(technique, SHAPE, RANKS)}
    del expected["gradient"]  # not all of them are there at the peak
    assert {category: shares.get(category, 0) for category in expected} == expected
    assert sum(shares.values()) == account.peak_bytes


@pytest.mark.parametrize("technique", ["ddp", "zero1"])
def test_replicas_hold_all_gradients_and_the_one_being_made(series: Series, technique: str, rank: int) -> None:
    whole = held(technique, SHAPE, RANKS)["gradient"]
    largest = FP32 * 4 * SHAPE.width * (SHAPE.width + 1)  # a layer's weight and bias
    most = series[technique, rank]["gradient"].max()
    assert whole < most <= whole + largest + FP32 * SHAPE.width


@pytest.mark.parametrize("technique", SHARDED)
def test_categories_of_shards_are_exact(series: Series, technique: str, rank: int) -> None:
    most = {name: int(bytes_.max()) for name, bytes_ in series[technique, rank].items()}
    assert most["gradient"] == gradients(SHAPE, RANKS)
    assert most["unsharded parameter"] == gathered(technique, SHAPE)
    assert most["communication buffer"] == pytest.approx(buffers(SHAPE), abs=SCALARS)


@pytest.mark.parametrize("technique", SHARDED)
def test_peaks_of_shards_are_exact(series: Series, technique: str, rank: int) -> None:
    _, expected = peak(technique, Training(shape=SHAPE, seq_len=SEQ_LEN), RANKS)
    assert series[technique, rank]["total"].max() == pytest.approx(expected, abs=SCALARS)


@pytest.mark.parametrize("technique", SHARDED)
def test_every_step_has_the_same_peak(found: dict[str, MemoryAccount], technique: str) -> None:
    peaks = found[TECHNIQUES[technique]].step_peaks
    assert max(peaks) - min(peaks) <= SCALARS


def test_a_plan_has_the_peak_of_cast_shards(found: dict[str, MemoryAccount]) -> None:
    (techniques,) = parse_variants(CAST)
    workload = WorkloadSpec(name="gpt", params={"batch_size": 1, "seq_len": SEQ_LEN})
    rehearsed = rehearse_step(RunSpec(workload=workload, techniques=techniques, launch=LaunchSpec(world_size=RANKS)))
    planned = build_memory_account(rehearsed.allocations)
    assert planned is not None
    assert planned.peak_bytes == pytest.approx(found[f"{CAST}@2"].peak_bytes, abs=SCALARS)
    assert planned.peak_bytes < 0.9 * found["zero3@2"].peak_bytes
