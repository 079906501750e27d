"""perfkit never breaks its host: whatever goes wrong, on either side, training goes on or ends as it would without."""

import gc
import logging
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import perfkit
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop_session import LoopSession
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Schedule
from perfkit.instruments.recorder import Recorder
from tests.fixtures.attached import (
    PROGRAMS,
    PYTHON,
    SMALL,
    UNDER_PERFKIT,
    bare,
    finished,
    start,
    watched,
)

QUICK = Schedule(warmup=2, max_warmup=2, timed=4, trace=2, memory=2)
STEPS = 18  # more than the schedule takes: instruments want steps for themselves


def watching(folder: Path, **options: Any) -> Any:
    return perfkit.profile(folder, **{"schedule": QUICK, "report": False, **options})


def train(steps: int = STEPS, on_step: Callable[[int], object] = lambda step: None) -> list[str]:
    """The losses of a small training with a DataLoader and dropout, exactly."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step, (inputs,) in enumerate(DataLoader(TensorDataset(torch.randn(8 * steps, 16)), batch_size=8, shuffle=True)):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        on_step(step)
    return losses


@pytest.fixture(scope="module")
def losses() -> list[str]:
    """Of `train` without perfkit."""
    return train()


def traces_left() -> dict[str, Any]:
    """Everything of this process that perfkit could have changed."""
    modules = nn.modules.module
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXFSZ, signal.SIGHUP)
    return {
        "optimizer hooks": (
            list(optimizers._global_optimizer_pre_hooks.values()),
            list(optimizers._global_optimizer_post_hooks.values()),
        ),
        "module hooks": [
            list(getattr(modules, name).values())
            for name in ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks")
        ],
        "backward": torch.autograd._engine_run_backward,
        "batches": (_BaseDataLoaderIter.__next__, DataLoader.__iter__),
        "evaluations": (nn.Module.eval, nn.Module.train),
        "files": torch.save,
        "step": (torch.optim.Optimizer.step, torch.optim.AdamW.step, torch.optim.AdamW.zero_grad),
        "forward": nn.Module.__call__,
        "signals": [signal.getsignal(number) for number in handled],
        "excepthooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        "garbage": list(gc.callbacks),
        "profiler": torch._C._autograd._profiler_enabled(),
        "modes": len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()),
        "threads": {thread.name for thread in threading.enumerate()},
        "streams": (sys.stdout, sys.stderr, sys.stdin),
        "argv": list(sys.argv),
        "path": list(sys.path),
    }


@pytest.fixture
def untouched() -> Iterator[None]:
    """The process is left as it was found."""
    torch.optim.AdamW([torch.zeros(1)])  # torch itself wraps `step` of a class when the first of it is made
    before = traces_left()
    yield
    after = traces_left()
    assert after == before


def the_variant(folder: Path) -> Variant:
    (variant,) = perfkit.analyze(folder).variants
    return variant


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


# --- what is hooked is unhooked ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("untouched")
def test_nothing_is_left_behind_and_nothing_changed(tmp_path: Path, losses: list[str]) -> None:
    with watching(tmp_path / "run"):
        assert train() == losses
    assert the_variant(tmp_path / "run").status == RunStatus.OK


@pytest.mark.usefixtures("losses", "untouched")  # torch wraps the step of a class with the first optimizer of it
def test_hooks_are_gone_as_soon_as_all_is_recorded(tmp_path: Path) -> None:
    """Not only at the end: the rest of the loop runs with one hook an update and a batch, which split the wall time."""
    before = traces_left()
    seen: list[set[str]] = []
    with watching(tmp_path / "run", stacks=None) as profile:

        def compare(step: int) -> None:
            seen.append({name for name, now in traces_left().items() if now != before[name]})

        train(on_step=compare)
        assert not profile.active
        pre, post = optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks
        assert (len(pre), len(post)) == tuple(len(hooks) + 1 for hooks in before["optimizer hooks"])
    assert {"backward", "garbage"} < seen[0]
    assert seen[-1] == seen[-2] == {"optimizer hooks", "batches", "evaluations", "files"}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("at", range(0, 12, 2))
def test_an_exception_of_the_program_passes_and_leaves_nothing(at: int, tmp_path: Path) -> None:
    """Wherever it comes: in warm-up, timed steps, under the profiler."""

    def fail(step: int) -> None:
        if step == at:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match=r"^mine$"), watching(tmp_path / "run"):
        train(on_step=fail)


@pytest.mark.usefixtures("untouched")
def test_hooks_on_modules_are_gone(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = vars(model).copy()
    with watching(tmp_path / "run", model=model, optimizer=optimizer):
        for _ in range(6):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    assert {name: value for name, value in vars(model).items() if name != "_parameters"} == {
        name: value for name, value in before.items() if name != "_parameters"
    }
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert "step" not in vars(optimizer)
    assert "forward" not in vars(model)


# --- perfkit fails ----------------------------------------------------------------------------------------------------

BREAKABLE = (
    (LoopFollower, "began"),
    (LoopFollower, "ended"),
    (LoopFollower, "forward"),
    (LoopFollower, "stepping"),
    (LoopFollower, "stepped"),
    (LoopSession, "open"),
    (LoopSession, "write_timing"),
    (LoopSession, "mark_step"),
    (LoopSession, "unmark_step"),
    (LoopSession, "end"),
    (Recorder, "update"),
    (torch.profiler.profile, "start"),
    (torch.profiler.profile, "export_chrome_trace"),
)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("owner", "name"), BREAKABLE, ids=lambda value: getattr(value, "__name__", value))
def test_a_failure_of_perfkit_is_logged_once_and_training_goes_on(
    owner: type, name: str, tmp_path: Path, losses: list[str], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("perfkit is broken here")

    with caplog.at_level(logging.WARNING, "perfkit"), watching(tmp_path / "run"):
        monkeypatch.setattr(owner, name, broken)
        assert train() == losses
    monkeypatch.undo()
    told = [each for each in complaints(caplog) if "perfkit is broken here" in each]
    assert len([each for each in told if "switched itself off" in each]) == 1, complaints(caplog)
    assert any(each.exc_info for each in caplog.records), "the traceback is what a report of the bug needs"


@pytest.mark.usefixtures("untouched")
def test_a_folder_that_cannot_be_written(tmp_path: Path, losses: list[str], caplog: Any) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING, "perfkit"), watching(tmp_path / "file" / "run") as profile:
        assert train() == losses
        assert not profile.active
    (told,) = complaints(caplog)
    assert "NotADirectoryError" in told


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("when", [1, 5, 9])
def test_a_folder_that_disappears(when: int, tmp_path: Path, losses: list[str], caplog: Any) -> None:
    """A file stands where the run's folder was: nothing below it can be written any more."""

    def remove(step: int) -> None:
        if step == when:
            (tmp_path / "run").rename(tmp_path / "elsewhere")
            (tmp_path / "run").touch()

    with caplog.at_level(logging.WARNING, "perfkit"), watching(tmp_path / "run"):
        assert train(on_step=remove) == losses
    assert len([each for each in complaints(caplog) if "switched itself off" in each]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, *(pytest.param(room, marks=pytest.mark.nightly) for room in (2_000, 20_000))])
def test_a_disk_that_fills(room: int, tmp_path: Path) -> None:
    """No file can grow beyond `room` bytes."""
    alone = bare("short.py", "--steps", "50", cwd=tmp_path)
    command = [*UNDER_PERFKIT, "--out", "run", *SMALL, PROGRAMS / "short.py", "--steps", "50"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))  # which the process inherits
    try:
        started = start(command, cwd=tmp_path, env={"PYTHONDONTWRITEBYTECODE": "1"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    out, err = started.communicate(timeout=180)
    process = subprocess.CompletedProcess(command, started.returncode, out, err)
    assert (process.returncode, process.stdout) == (alone.returncode, alone.stdout), process.stderr.decode()
    assert process.stderr.count(b"perfkit switched itself off") == 1, process.stderr.decode()
    assert b"Traceback" not in process.stderr
    assert b"report.html" not in process.stderr
    assert re.match(r"perfkit: .*\brun\b", process.stderr.decode().splitlines()[-1])


@pytest.mark.slow
def test_an_unwritable_folder_costs_a_run_its_profile_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    alone = bare("short.py", cwd=tmp_path)
    process = finished([*UNDER_PERFKIT, "--out", "file/run", PROGRAMS / "short.py"], cwd=tmp_path)
    assert (process.returncode, process.stdout) == (alone.returncode, alone.stdout)
    said = [line for line in process.stderr.decode().splitlines() if not line.startswith("perfkit: watching ")]
    assert len(said) == 1, said
    assert "NotADirectoryError: " in said[0]


# --- the program fails ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "status", "reason"),
    [
        ("raise", 1, RunStatus.FAILED, "ValueError: the loss of step 8 is of no use: ünïcode"),
        ("exit:3", 3, RunStatus.FAILED, "3"),
        pytest.param("exit:0", 0, RunStatus.OK, "", marks=pytest.mark.nightly),
        pytest.param("message", 1, RunStatus.FAILED, "enough of this", marks=pytest.mark.nightly),
        ("oom", 1, RunStatus.OUT_OF_MEMORY, "can't allocate memory"),
        ("sigint", -signal.SIGINT, RunStatus.INTERRUPTED, "KeyboardInterrupt"),
        ("sigterm", -signal.SIGTERM, RunStatus.INTERRUPTED, "killed"),
        ("kill", -signal.SIGKILL, RunStatus.INTERRUPTED, "killed"),
    ],
)
def test_a_program_ends_as_it_would_alone(how: str, code: int, status: RunStatus, reason: str, tmp_path: Path) -> None:
    """Its exit code, its output and its traceback, to the byte; and the run can be read."""
    arguments = ("fails.py", "--how", how, "--at", "8")
    alone = bare(*arguments, cwd=tmp_path)
    process = watched(*arguments, cwd=tmp_path)
    assert alone.returncode == code
    assert process.returncode == code, process.stderr.decode()
    assert process.stdout == alone.stdout
    assert alone.stderr in process.stderr, process.stderr.decode()
    variant = the_variant(tmp_path / "run")
    assert variant.status == status
    assert reason in variant.reason
    assert "perfkit" not in variant.traceback


@pytest.mark.slow
def test_a_handler_of_the_program_is_called(tmp_path: Path) -> None:
    arguments = ("fails.py", "--how", "sigterm", "--at", "8", "--handler")
    alone = bare(*arguments, cwd=tmp_path)
    process = watched(*arguments, cwd=tmp_path)
    assert (process.returncode, process.stdout) == (alone.returncode, alone.stdout) == (7, alone.stdout)
    assert b"checkpoint saved" in process.stdout
    assert the_variant(tmp_path / "run").status != RunStatus.OK


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_from_outside(number: signal.Signals, tmp_path: Path) -> None:
    command = [*UNDER_PERFKIT, "--out", "run", *SMALL, "--no-report", PROGRAMS / "fails.py", "--how", "wait"]
    process = start([*command, "--at", "8"], cwd=tmp_path)
    while not process.stdout.readline().startswith(b"step 7 "):
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -number, err.decode()
    assert the_variant(tmp_path / "run").status != RunStatus.OK


@pytest.mark.slow
def test_a_killed_run_keeps_what_was_recorded(tmp_path: Path) -> None:
    process = watched("fails.py", "--how", "kill", "--at", "60", "--steps", "80", cwd=tmp_path)
    assert process.returncode == -signal.SIGKILL
    variant = the_variant(tmp_path / "run")
    assert variant.status == RunStatus.INTERRUPTED
    assert isinstance(variant.step_time, MedianEstimate)
    assert variant.time_split
    assert variant.memory is not None


# --- one in another, one after another --------------------------------------------------------------------------------


@pytest.mark.usefixtures("untouched")
def test_a_profile_entered_twice_at_once(tmp_path: Path, losses: list[str]) -> None:
    profile = watching(tmp_path / "run")
    with profile, profile:
        assert train() == losses
    assert the_variant(tmp_path / "run").status == RunStatus.OK


# --- processes and threads --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
def test_workers_of_a_dataloader_by_fork(tmp_path: Path) -> None:
    def batches() -> list[float]:
        torch.manual_seed(0)
        model = nn.Linear(16, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(
            TensorDataset(torch.randn(8 * STEPS, 16)), batch_size=8, num_workers=2, multiprocessing_context="fork"
        )
        found = []
        for (inputs,) in loader:
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    alone = batches()
    with watching(tmp_path / "run"):
        assert batches() == alone
    assert the_variant(tmp_path / "run").status == RunStatus.OK


FORKS = """
import os, sys, torch, perfkit
from perfkit.core.spec import Schedule

def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()

profile = perfkit.profile("run", schedule=Schedule(warmup=1, max_warmup=1, timed=5, trace=2, memory=2), report=False)
profile.start()
train({before})
child = os.fork()
if child == 0:
    train(20)
    {leave}(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
train({after})
profile.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "leave"),
    [
        pytest.param(0, "sys.exit", id="before it began"),
        pytest.param(4, "sys.exit", id="while timed", marks=pytest.mark.nightly),
        # As multiprocessing does. Where torch.profiler has been on, with perfkit or without, a forked child hangs in
        # exit() of C: Kineto's destructor waits for a thread that fork() has not copied.
        pytest.param(8, "os._exit", id="while traced"),
    ],
)
def test_a_child_that_trains_and_exits_does_not_touch_the_run(before: int, leave: str, tmp_path: Path) -> None:
    code = FORKS.format(before=before, after=16, leave=leave)
    process = finished([*PYTHON, "-c", code], cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert process.returncode == 0, process.stderr.decode()
    variant = the_variant(tmp_path / "run")
    assert variant.status == RunStatus.OK
    assert variant.loop.steps_seen <= before + 16


@pytest.mark.usefixtures("untouched")
def test_two_threads_that_train_at_once(tmp_path: Path, caplog: Any) -> None:
    """One of them is followed; both get what they get alone."""

    def training(seed: int, results: dict[int, list[str]]) -> None:
        generator = torch.Generator().manual_seed(seed)
        model = nn.Linear(16, 1)
        with torch.no_grad():
            model.weight.fill_(0.1)
            model.bias.zero_()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(40):
            loss = model(torch.randn(8, 16, generator=generator)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
        results[seed] = losses

    def both() -> dict[int, list[str]]:
        results: dict[int, list[str]] = {}
        threads = [threading.Thread(target=training, args=(seed, results)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    alone = both()
    with watching(tmp_path / "run"):
        assert both() == alone
    assert not [each for each in complaints(caplog) if "switched itself off" in each]
    loop = the_variant(tmp_path / "run").loop
    assert len(loop.optimizers) == 1


@pytest.mark.usefixtures("untouched")
def test_entered_in_a_thread(tmp_path: Path, losses: list[str]) -> None:
    found: list[list[str]] = []

    def work() -> None:
        with watching(tmp_path / "run"):
            found.append(train())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [losses]
    assert the_variant(tmp_path / "run").status == RunStatus.OK


# --- places -----------------------------------------------------------------------------------------------------------

A_TEST = """
import torch
import perfkit
from perfkit.core.spec import Schedule

def test_training(tmp_path):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    quick = Schedule(warmup=1, max_warmup=1, timed=2, trace=1, memory=1)
    with perfkit.profile(tmp_path / "run", schedule=quick, report=False):
        for _ in range(8):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    (variant,) = perfkit.analyze(tmp_path / "run").variants
    assert variant.status == "ok"

def test_that_fails():
    assert 1 == 2
"""


@pytest.mark.slow
def test_inside_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(A_TEST)
    process = finished([*PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"], cwd=tmp_path)
    assert process.returncode == 1, process.stdout.decode()
    assert b"1 failed, 1 passed" in process.stdout


@pytest.mark.nightly
def test_pytest_inside_of_perfkit_run(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        A_TEST.replace("perfkit.profile(tmp_path", "__import__('contextlib').nullcontext(tmp_path")
        .replace(", schedule=quick, report=False", "")
        .split("    (variant,)")[0]
    )
    command = [*UNDER_PERFKIT, "--out", "run", "--warmup", "1", "--timed", "2", "--trace", "1", "--memory", "1"]
    arguments = ["--no-report", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    process = finished([*command, *arguments], cwd=tmp_path)
    assert process.returncode == 0, process.stdout.decode() + process.stderr.decode()
    assert b"1 passed" in process.stdout
    loop = the_variant(tmp_path / "run").loop
    assert loop.steps_seen > 0


@pytest.mark.slow
def test_a_notebook(tmp_path: Path) -> None:
    """Cells run by `exec` in a namespace that is no module's, and the summary drawn in the last one."""
    cells = (
        "import torch, perfkit\nfrom perfkit.core.spec import Schedule",
        "model = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        f"prof = perfkit.profile({str(tmp_path / 'run')!r}, "
        "schedule=Schedule(warmup=1, max_warmup=1, timed=3, trace=1, memory=1), report=False).start()",
        "for _ in range(5):\n    model(torch.randn(2, 4)).sum().backward(); optimizer.step(); optimizer.zero_grad()",
        "for _ in range(5):\n    model(torch.randn(2, 4)).sum().backward(); optimizer.step(); optimizer.zero_grad()",
        "prof.stop()",
        "summary = prof.summary()",
    )
    namespace: dict[str, Any] = {}
    for cell in cells:
        exec(cell, namespace)  # the notebook's way
    assert str(namespace["summary"]).strip()
    assert "<" in namespace["summary"]._repr_html_()
    assert the_variant(tmp_path / "run").status == RunStatus.OK


@pytest.mark.nightly
def test_a_prompt_without_a_file(tmp_path: Path) -> None:
    """`python` reading from stdin: no `__file__`, no script to name the run by."""
    code = FORKS.format(before=4, after=12, leave="sys.exit").replace('profile("run", ', "profile(")
    process = finished([*PYTHON, "-"], cwd=tmp_path, stdin=code.encode())
    assert process.returncode == 0, process.stderr.decode()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-training")
    assert the_variant(folder).status == RunStatus.OK


def test_each_claims_a_folder_of_its_own(tmp_path: Path) -> None:
    for expected in ("run", "run-2", "run-3"):
        with watching(tmp_path / "run") as profile:
            train()
        assert profile.folder == tmp_path / expected


IN_A_THREAD = """
import sys, threading, torch, perfkit
from perfkit.core.spec import Schedule

def train(steps):
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

def work(steps):
    train(steps)
    done.set()
    {after}

done = threading.Event()
quick = Schedule(warmup=2, max_warmup=2, timed=3, trace=3, memory=3)
with perfkit.profile("run", schedule=quick, report=False):
    thread = threading.Thread(target=work, args=({steps},), daemon={daemon})
    thread.start()
    {wait}
train(5)
print("trained on")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps", [7, 8, 12], ids=["while traced", "later while traced", "while allocations are recorded"]
)
def test_a_thread_that_ends_under_an_instrument(steps: int, tmp_path: Path) -> None:
    """torch's profiler can be ended by no other thread: reading what it returns there ends the process."""
    code = IN_A_THREAD.format(steps=steps, after="", daemon=False, wait="thread.join()")
    process = finished([*PYTHON, "-c", code], cwd=tmp_path)
    assert (process.returncode, process.stdout) == (0, b"trained on\n"), process.stderr.decode()
    assert b"perfkit switched itself off" not in process.stderr
    variant = the_variant(tmp_path / "run")
    assert variant.status == RunStatus.OK
    assert isinstance(variant.step_time, MedianEstimate)
    assert any(f"{steps} detected steps" in note.text and "--memory" in note.text for note in variant.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [8, 12], ids=["while traced", "while allocations are recorded"])
def test_a_thread_that_is_left_behind_under_an_instrument(steps: int, tmp_path: Path) -> None:
    code = IN_A_THREAD.format(steps=steps, after="threading.Event().wait()", daemon=True, wait="done.wait()")
    process = finished([*PYTHON, "-c", code], cwd=tmp_path)
    assert (process.returncode, process.stdout) == (0, b"trained on\n"), process.stderr.decode()
    assert process.stderr.count(b"perfkit switched itself off") == 1
    assert re.search(rb"perfkit switched itself off.*\bthread\b", process.stderr)
