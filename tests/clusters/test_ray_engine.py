"""On a cluster of two nodes with one CPU each, which the test starts on this machine."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.parallel import engines
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.errors import PerfkitError, UnavailableError
from tests.fixtures import engine_functions as functions
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.ray_nodes import two_ray_nodes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with two_ray_nodes() as cluster:
        yield cluster


def test_both_nodes_work_and_every_item_has_its_result(cluster: Any) -> None:
    found = dict(engines.run_parallel(functions.node_of, range(12), engine="ray"))
    assert sorted(found) == list(range(12))
    assert len(set(found.values())) == 2


def test_items_that_fail_do_not_stop_the_others(cluster: Any) -> None:
    found = dict(engines.run_parallel(functions.fault_at_three, range(6), engine="ray"))
    assert {number: found[number] for number in (0, 1, 2, 5)} == {0: 0, 1: 1, 2: 2, 5: 5}
    assert isinstance(found[3], PerfkitError)
    assert "3: failed on Ray: ZeroDivisionError: a fault of the function" in str(found[3])
    assert str(found[4]) == "4: refused"


def test_fewer_at_once_than_the_cluster_has_room_for(cluster: Any) -> None:
    assert dict(engines.run_parallel(functions.square, range(5), engine="ray", jobs=1)) == {n: n * n for n in range(5)}


def test_a_path_that_no_node_can_read_is_told_so(cluster: Any, tmp_path: Path) -> None:
    present, absent = tmp_path / "rank0.json", tmp_path / "rank1.json"
    present.write_bytes(b"12345")
    found = dict(engines.run_parallel(functions.size_of, [str(present), str(absent)], engine="ray"))
    assert found[str(present)] == 5
    assert isinstance(found[str(absent)], PerfkitError)
    assert "on storage that every node mounts" in str(found[str(absent)])


def test_ranks_analysed_on_the_cluster_are_as_when_analysed_here(cluster: Any, tmp_path: Path) -> None:
    for rank in range(3):
        training_file(tmp_path / f"rank{rank}.json.gz", rank=rank, world_size=3, late_us=10.0 * rank)
    here, there = (analyze_traces([str(tmp_path)], engine=engine) for engine in engines.ENGINES)
    assert there.fleet == here.fleet
    assert there.fleet.straggler == "rank 2"
    # It comes 20 us later than rank 0 in each step.
    assert there.fleet.ranks[2].late_s == pytest.approx(20e-6)
    assert there.traces == here.traces


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableError, match=r"pip install 'perfkit\[ray\]'"):
        list(engines.run_parallel(functions.square, [1, 2], engine="ray"))


def test_a_cluster_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UnavailableError, match=r"no Ray cluster at RAY_ADDRESS=127\.0\.0\.1:1 can be reached"):
        list(engines.run_parallel(functions.square, [1, 2], engine="ray"))
