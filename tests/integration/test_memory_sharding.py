"""What the account says of runs on two ranks, against what data parallelism and ZeRO hold in theory."""

import pytest

from benchmarks.gpt_memory import FP32, Training, block_parameters, standing
from benchmarks.memory_runs import accounts, run_memory
from benchmarks.zero_memory import all_gather, gathered, held
from perfkit.analysis.result import MemoryAccount
from perfkit.workloads.gpt import Gpt

RANKS = 2
SHAPE = Gpt(batch_size=1).shape()
SEQ_LEN = 32
TECHNIQUES = {"ddp": "baseline@2", "zero1": "zero1@2", "zero2": "zero2@2", "zero3": "zero3@2"}
SHARDED = ("zero2", "zero3")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MemoryAccount]:
    folder = tmp_path_factory.mktemp("sharding") / "suite"
    return accounts(run_memory(f"gpt:batch_size=1:seq_len={SEQ_LEN}", "zero1,zero2,zero3", folder, threads=1))


@pytest.fixture(params=TECHNIQUES)
def technique(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_state_is_exact(found: dict[str, MemoryAccount], technique: str) -> None:
    account = found[TECHNIQUES[technique]]
    shares = {share.category: share.bytes for share in account.categories}
    expected = {**standing(Training(shape=SHAPE, seq_len=SEQ_LEN)), **held(technique, SHAPE, RANKS)}
    del expected["gradient"]  # not all of them are there at the peak
    assert {category: shares.get(category, 0) for category in expected} == expected
    assert sum(shares.values()) == account.peak_bytes


@pytest.mark.parametrize("technique", ["ddp", "zero1"])
def test_replicas_hold_all_gradients_and_the_one_being_made(found: dict[str, MemoryAccount], technique: str) -> None:
    gradients = max(found[TECHNIQUES[technique]].timeline_categories["gradient"])
    whole = held(technique, SHAPE, RANKS)["gradient"]
    largest = FP32 * 4 * SHAPE.width * (SHAPE.width + 1)  # a layer's weight and bias
    assert whole < gradients <= whole + largest + FP32 * SHAPE.width


@pytest.mark.parametrize("technique", SHARDED)
def test_shards_hold_their_part_of_the_gradients(found: dict[str, MemoryAccount], technique: str) -> None:
    """All of them at the end of backward; before, those of a block may be whole until they are reduced."""
    gradients = max(found[TECHNIQUES[technique]].timeline_categories["gradient"])
    shards = held(technique, SHAPE, RANKS)["gradient"]
    assert shards <= gradients <= shards + FP32 * block_parameters(SHAPE)


@pytest.mark.parametrize("technique", SHARDED)
def test_what_is_gathered(found: dict[str, MemoryAccount], technique: str) -> None:
    account = found[TECHNIQUES[technique]]
    assert max(account.timeline_categories["unsharded parameter"]) == gathered(technique, SHAPE)


@pytest.mark.parametrize("technique", SHARDED)
def test_what_is_in_flight(found: dict[str, MemoryAccount], technique: str) -> None:
    """At least what one all-gather yields; how many collectives are under way is a matter of time."""
    buffers = max(found[TECHNIQUES[technique]].timeline_categories["communication buffer"])
    assert buffers >= all_gather(SHAPE)
