from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.gpu.failing_ranks import CULPRITS, FAULTS, check_outcome, list_dumps
from benchmarks.gpu.fixtures import DUMPS, find_smallest
from benchmarks.gpu.fixtures import list_dumps as list_fixture_dumps
from benchmarks.gpu.more_techniques import TRIED, Tried, check_variant
from benchmarks.gpu.ranks import BENCHES
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import parse_variants
from perfkit.techniques.compose import compose_techniques
from tests.fixtures.sample_analysis import realistic

OUTCOME = {"status": "timeout", "reason": "rank 1 had not entered all_reduce 9", "dumps": {"nccl_trace_rank_0": 10}}


def outcome(**changed: Any) -> dict[str, Any]:
    return {**OUTCOME, **changed}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (outcome(), 0),
        (outcome(dumps={"rank0/flight_recorder.json.gz": 10}), 0),
        (outcome(dumps={"rank1/flight_recorder.json.gz": 10}), 1),
        (outcome(dumps={}, reason="not done after 30 s"), 2),
        (outcome(status="ok", reason="", dumps={}), 3),
    ],
)
def test_a_failure_names_its_culprit_and_leaves_a_dump(given: dict[str, Any], wrong: int) -> None:
    assert len(check_outcome("hung", "cuda", given)) == wrong


def test_every_fault_has_a_culprit_on_both_devices() -> None:
    assert {fault for fault, _ in CULPRITS} == set(FAULTS)
    assert len(CULPRITS) == 2 * len(FAULTS)


def test_dumps_of_nccl_and_of_perfkit_are_listed(tmp_path: Path) -> None:
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "flight_recorder.json.gz").write_bytes(b"12")
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"123")
    assert list_dumps(tmp_path) == {"nccl_trace_rank_1": 3, "rank0/flight_recorder.json.gz": 2}


def test_fixtures_are_the_smallest_recordings_and_all_dumps(tmp_path: Path) -> None:
    for name, size in (("a", 5), ("b", 2), ("c", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.json.gz").write_bytes(bytes(size))
    assert find_smallest(tmp_path, "trace.json.gz") == tmp_path / "b" / "trace.json.gz"
    assert find_smallest(tmp_path, "history.json.gz") is None
    run = tmp_path / "ranks" / "together" / "hung" / "run"
    (run / "rank1").mkdir(parents=True)
    (run / "nccl_trace_rank_0").touch()
    (run / "rank1" / "flight_recorder.json.gz").touch()
    assert list(list_fixture_dumps(tmp_path, DUMPS)) == ["hung/nccl_trace_rank_0"]
    assert list(list_fixture_dumps(tmp_path, "flight_recorder.json.gz")) == ["hung/rank1/flight_recorder.json.gz"]


@pytest.mark.parametrize(
    "variant",
    [name for bench in BENCHES.values() for name in bench.techniques] + [tried.variant for tried in TRIED.values()],
)
def test_every_variant_is_known(variant: str) -> None:
    (techniques,) = parse_variants(variant)
    assert compose_techniques(techniques)


def sample(verdict: str, **changed: Any) -> dict[str, Variant]:
    found = next(each for each in realistic().variants if each.status == RunStatus.OK)
    parity = msgspec.structs.replace(found.parity, verdict=verdict)
    return {"amp": msgspec.structs.replace(found, **{"claims": (), "memory": None, "parity": parity, **changed})}


@pytest.mark.parametrize(
    ("same", "verdict", "wrong"), [(True, "differs", 1), (False, "differs", 0), (True, "equal", 0)]
)
def test_losses_of_another_optimizer_may_differ(same: bool, verdict: str, wrong: int) -> None:
    assert len(check_variant(Tried("amp", same_losses=same), sample(verdict))[2]) == wrong


def test_a_skipped_variant_is_listed_and_not_wrong() -> None:
    figures, _, wrong = check_variant(Tried("amp"), sample("unknown", status=RunStatus.SKIPPED, reason="needs liger"))
    assert (figures, wrong) == ({"status": "skipped", "reason": "needs liger"}, [])
