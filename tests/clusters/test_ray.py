"""`--launcher ray` on a cluster of two nodes with one CPU each, which the test starts on this machine."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import psutil
import pytest

from perfkit.core.errors import PerfkitError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, TechniqueSpec, WorkloadSpec
from perfkit.measure.launch import ray_launcher as on_ray
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run
from tests.conftest import TINY
from tests.fixtures.ray_nodes import two_ray_nodes
from tests.integration.test_rank_failures import WORKLOAD

TWO_NODES = ("--launcher", "ray", "--nnodes", "2", "--world-size", "2")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    import ray

    with two_ray_nodes() as cluster:
        yield cluster
        ray.shutdown()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    on_ray.RAY.give_back()
    assert not [process for process in psutil.process_iter() if _is_rank(process)]
    assert not _folders()


def _folders() -> list[Path]:
    return list(Path(gettempdir()).glob("perfkit-ray-*"))


def _is_rank(process: psutil.Process) -> bool:
    try:
        return any("perfkit-ray-" in part for part in process.cmdline())
    except psutil.Error:
        return False


def run_with(fault: str, folder: Path, timeout_s: float = 120.0, **launched: Any) -> RunResult:
    (folder / "mine.py").write_text(WORKLOAD)
    spec = RunSpec(
        workload=WorkloadSpec(name="mine.py:build", params={"fault": fault}),
        techniques=(TechniqueSpec(name="ddp"),),
        schedule=Schedule(warmup=1, max_warmup=1, timed=5),
        launch=LaunchSpec(world_size=2, threads=1, timeout_s=timeout_s, launcher="ray", nodes=2, **launched),
        passes=(),
    )
    return launch_run(spec, folder / "run", lambda _: None, place=RankPlace(folder=folder))


def test_a_bench_on_two_nodes_has_all_that_its_ranks_wrote(perfkit: Any) -> None:
    perfkit.environment["RAY_ADDRESS"] = os.environ["RAY_ADDRESS"]
    ended = perfkit("bench", *TINY, "-t", "ddp,zero3", *TWO_NODES, "--out", "two")
    assert ended.returncode == 0, ended.stderr
    variants = perfkit.variants("two")
    assert {name: variant["status"] for name, variant in variants.items()} == (
        dict.fromkeys(("baseline@2", "ddp@2", "zero3@2"), "ok")
    )
    assert all(variants[name]["active"] for name in ("ddp@2", "zero3@2"))
    for rank in range(2):
        left = {path.name for path in (perfkit.folder / "two" / "zero3@2" / "0" / f"rank{rank}").iterdir()}
        assert left >= {"record.json", "trace.json.gz", "memory.parquet", "output.log"}


def test_a_rank_that_raises_is_told_with_its_own_traceback(tmp_path: Path) -> None:
    run = run_with("raise", tmp_path)
    assert (run.status, run.reason) == (RunStatus.FAILED, "rank 1: RuntimeError: the user's own mistake")
    assert 'raise RuntimeError("the user\'s own mistake")' in run.output_tail
    assert run.exit_codes == (1, 1)
    assert [(wait.rank, wait.op) for wait in run.rank_waits] == [(0, "all_reduce"), (1, "all_reduce")]


def test_a_rank_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    run = run_with("hang", tmp_path, timeout_s=40.0)
    assert run.status == RunStatus.TIMEOUT
    assert "rank 1 never entered all_reduce" in run.reason
    assert run.exit_codes == (-signal.SIGTERM, -signal.SIGTERM)


def test_a_rank_that_is_killed_is_told_from_one_that_lost_it(tmp_path: Path) -> None:
    run = run_with("kill", tmp_path)
    assert (run.status, run.exit_codes) == (RunStatus.CRASHED, (1, -signal.SIGKILL))
    assert run.reason.startswith("rank 1 was killed (SIGKILL)")


def test_a_node_that_is_lost_is_named(tmp_path: Path) -> None:
    killed = threading.Thread(target=_kill_the_actor_of, args=(tmp_path / "pid1",))
    killed.start()
    run = run_with("hang", tmp_path)
    killed.join()
    assert run.status == RunStatus.CRASHED
    assert run.reason.startswith("the Ray node of rank 1 ended: ")
    assert run.exit_codes[1] is None
    [left] = _folders()  # nobody was there to remove it
    shutil.rmtree(left)


def _kill_the_actor_of(told: Path) -> None:
    limit = time.monotonic() + 100
    while not told.exists() or not told.read_text():
        if time.monotonic() > limit:
            return
        time.sleep(0.1)
    psutil.Process(int(told.read_text())).parent().kill()


def test_sigterm_is_told_as_such_and_ends_the_ranks(perfkit: Any) -> None:
    perfkit.environment["RAY_ADDRESS"] = os.environ["RAY_ADDRESS"]
    bench = perfkit.start("bench", *TINY, "-t", "baseline", *TWO_NODES, "--out", "two")
    limit = time.monotonic() + 120
    while not any(map(_is_rank, psutil.process_iter())):
        assert time.monotonic() < limit
        assert bench.poll() is None, bench.communicate()
        time.sleep(0.2)
    bench.terminate()
    _, err = bench.communicate(timeout=120)
    assert bench.returncode == 143
    assert "terminated: what was measured is kept in two" in err


def test_what_no_node_has_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "_PLACED_WITHIN_S", 1.0)
    with pytest.raises(
        PerfkitError, match=r"no 2 nodes with 1 CPUs and 1 GPUs free on each; what its nodes have: 1 CPUs"
    ):
        run_with("raise", tmp_path, device="cuda")
