"""Two sides measured beside each other: real processes, and a repository whose package differs between commits."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.revision import open_worktree, read_working_tree
from perfkit.check.sides.side import SideFailedError, make_side
from perfkit.check.sides.suites import measure_sides
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec
from perfkit.measure.interleaving.lockstep import LEAST_TURNS
from perfkit.store.pairs import ALTERNATING, LOCK_STEP, PAIRS_FILE, Pairs
from perfkit.store.request import BenchRequest

pytestmark = pytest.mark.slow

TRAIN = """
import torch
from torch import nn
import perfkit
from model import WIDTH, check

def build():
    check()
    return perfkit.Workload(
        name="tiny",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Linear(WIDTH, WIDTH, bias=False),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
        make_batch=lambda generator: {"x": torch.randn(4, WIDTH, generator=generator)},
        loss=loss,
    )

def loss(model, batch):
    check(batch)
    return model(batch["x"]).square().mean()
"""
MODEL = "WIDTH = {width}\ndef check(batch=None):\n    {body}\n"
QUICK = Schedule(warmup=1, max_warmup=2, timed=2, trace=1, memory=1, parity=2)
GPT = WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 1, "seq_len": 32})
OWN = WorkloadSpec(name="train.py:build")


def commit(folder: Path, **model: object) -> None:
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "src" / "model.py").write_text(MODEL.format(**{"body": "pass", **model}))
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")
    for arguments in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "change")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A model of width 8, committed, and of width 16 in the commit after it; its package lies in `src`."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder = tmp_path / "repository"
    commit(folder, width=8)
    commit(folder, width=16)
    return folder


@contextmanager
def sides(repository, python_path=("src",)):
    with open_worktree(repository, "HEAD~1") as before:
        yield make_side(before, python_path), make_side(read_working_tree(repository), python_path)


def spec(workload=OWN, world_size=1, timeout_s=300.0):
    launch = LaunchSpec(threads=1, world_size=world_size, timeout_s=timeout_s)
    return RunSpec(workload=workload, schedule=QUICK, launch=launch, passes=())


def measure(before, after, order, folder, *, turns=LOCK_STEP, most=1):
    return measure_pairs(
        before,
        after,
        order,
        turns=turns,
        most=most,
        budget_s=600.0,
        folder=folder,
        enough=lambda pairs: "",
        progress=lambda event: None,
    )


def record(folder: Path, rank: int = 0) -> RankRecord:
    return read_json(folder / f"rank{rank}" / "record.json", RankRecord)


def alive(pids):
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def workers_of(pid):
    """The worker processes below a process."""
    return [
        child.pid
        for child in psutil.Process(pid).children(recursive=True)
        if "perfkit.measure.rank.worker" in child.cmdline()
        or "perfkit.measure.interleaving.turn_worker" in child.cmdline()
    ]


@pytest.mark.parametrize("turns", [LOCK_STEP, ALTERNATING])
def test_each_side_runs_its_own_code(repository, tmp_path, turns):
    with sides(repository) as (before, after):
        pairs = measure(before, after, spec(), tmp_path / "pairs", turns=turns, most=2)
    assert read_json(tmp_path / "pairs" / PAIRS_FILE, Pairs) == pairs
    assert len(pairs.pairs) == 2
    for index, pair in enumerate(pairs.pairs):
        assert len(pair.before.wall_s) == len(pair.before.cpu_s) == len(pair.after.wall_s) == len(pair.after.cpu_s)
        assert min(pair.before.wall_s + pair.after.wall_s) > 0
        assert sum(pair.before.wall_s) + sum(pair.after.wall_s) < pair.seconds
        for name, width in (("before", 8), ("after", 16)):
            rank = record(tmp_path / "pairs" / f"{index:03}" / name)
            assert rank.status == RunStatus.OK
            assert rank.workload.parameters == width * width
    assert alive(workers_of(os.getpid())) == []


def test_a_side_against_itself(tmp_path):
    same = make_side(read_working_tree(tmp_path))
    pairs = measure(same, same, spec(GPT), tmp_path / "pairs")
    assert len(pairs.pairs[0].before.wall_s) == len(pairs.pairs[0].after.wall_s) >= LEAST_TURNS


def test_several_ranks_step_together(repository, tmp_path):
    with sides(repository) as (before, after):
        pairs = measure(before, after, spec(world_size=2), tmp_path / "pairs")
    assert len(pairs.pairs[0].before.wall_s) >= LEAST_TURNS
    assert [record(tmp_path / "pairs" / "000" / "after", rank).status for rank in (0, 1)] == [RunStatus.OK] * 2


def test_code_from_the_other_tree_is_found_out(repository, tmp_path, monkeypatch):
    # What an editable install of the package does: its folder in the main tree is on every process's path.
    monkeypatch.setenv("PYTHONPATH", str(repository / "src"))
    with sides(repository, python_path=()) as (before, after), pytest.raises(SideFailedError) as caught:
        measure(before, after, spec(), tmp_path / "pairs")
    assert caught.value.label == before.label
    for part in (before.label, "'model'", str(repository / "src" / "model.py"), "python_path", '["src"]'):
        assert part in str(caught.value)
    with sides(repository) as (before, after):
        measure(before, after, spec(), tmp_path / "cured")
    assert record(tmp_path / "cured" / "000" / "before").workload.parameters == 64


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("assert batch is None, 'no such thing'", RunStatus.FAILED, "no such thing"),
        ("if batch is not None: raise MemoryError", RunStatus.OUT_OF_MEMORY, "step 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", RunStatus.CRASHED, "SIGKILL"),
        ("import os; print('last words', flush=True); os._exit(0)", RunStatus.CRASHED, "last words"),
    ],
)
def test_a_side_that_fails_is_named_and_nothing_is_left_running(repository, tmp_path, body, status, reason):
    commit(repository, width=16, body=body)
    with sides(repository) as (before, after), pytest.raises(SideFailedError) as caught:
        measure(before, after, spec(), tmp_path / "pairs")
    assert caught.value.label == after.label
    assert caught.value.run.status == status
    assert reason in str(caught.value)
    if status == RunStatus.FAILED:
        assert "src/model.py" in caught.value.traceback
    assert alive(workers_of(os.getpid())) == []


@pytest.mark.nightly
def test_a_side_that_hangs_runs_into_the_limit(repository, tmp_path):
    body = "import time; batch is None or time.sleep(600)"
    commit(repository, width=16, body=body)
    with sides(repository) as (before, after), pytest.raises(SideFailedError) as caught:
        measure(before, after, spec(timeout_s=20.0), tmp_path / "pairs")
    assert (caught.value.label, caught.value.run.status) == (after.label, RunStatus.TIMEOUT)
    assert alive(workers_of(os.getpid())) == []


PARENT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_pairs import GPT, measure, spec
from perfkit.check.sides.lockstep import measure_pair
from perfkit.check.sides.revision import read_working_tree
from perfkit.check.sides.side import make_side

side = make_side(read_working_tree(Path.cwd()))
measure_pair(side, side, spec(GPT), Path("pair"), index=0, report=lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
def test_workers_end_with_their_parent(tmp_path, number):
    program = PARENT.format(tests=str(Path(__file__).parent))
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in parent.stdout:
        if line.strip() in ("warm-up", "turns"):
            break
    workers = workers_of(parent.pid)
    assert len(workers) >= 2
    parent.send_signal(number)
    parent.wait(60)
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while alive(workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(workers) == []


def test_both_sides_leave_ordinary_suites(repository, tmp_path):
    events = []
    request = BenchRequest(
        workload=OWN, variants=((),), device="cpu", device_count=1, cores=1, schedule=QUICK, threads=1
    )
    with sides(repository) as (before, after):
        measure_sides(
            before,
            after,
            request,
            tmp_path / "suites",
            repeats=2,
            command="test",
            ceilings=None,
            progress=lambda label, event: events.append((label, type(event).__name__, getattr(event, "repeat", None))),
        )
    begun = [(label, repeat) for label, name, repeat in events if name == "RunStarted"]
    assert begun == [(before.label, 0), (after.label, 0), (after.label, 1), (before.label, 1)]
    for name, width in (("before", 8), ("after", 16)):
        analysis = analyze_suite(tmp_path / "suites" / name)
        (variant,) = analysis.variants
        assert variant.status == RunStatus.OK
        first = tmp_path / "suites" / name / "baseline" / "0"
        assert record(first).workload.parameters == width * width
        assert (first / "rank0" / "trace.json.gz").is_file()
        assert (first / "rank0" / "memory.parquet").is_file()
        assert not (tmp_path / "suites" / name / "baseline" / "1" / "rank0" / "trace.json.gz").exists()
