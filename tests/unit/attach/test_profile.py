"""`perfkit.profile` around small loops: how it begins and ends, and what is in the folder then."""

import gc
import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import perfkit
from perfkit.attach import profile as profiles
from perfkit.attach import watcher
from perfkit.attach.host import budget as budgets
from perfkit.attach.host.budget import HostMemory
from perfkit.attach.profile import Profile, RunSummary, build_summary
from perfkit.core.errors import UsageError
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.spec import Schedule
from perfkit.core.texts.error_text import TEXT_CHARS
from perfkit.store.live import LiveEvent, LiveStart, LiveWindow, read_live
from perfkit.store.suite_reader import StoredRun, read_suite

SHORT = Schedule(warmup=1, max_warmup=1, timed=2, trace=1, memory=1)
ENOUGH = 12  # steps: those of the schedule, the first, which tells what is trained, and those between instruments


def short(folder: Path, **options: Any) -> Profile:
    # The first recording of a process starts a profiler, for seconds on a slow machine: no budget ends it here.
    given = {"schedule": SHORT, "report": False, "stacks": None, "overhead": 1000.0, **options}
    prof: Profile = perfkit.profile(folder, **given)
    return prof


def train(steps: int, on_step: Callable[[int], object] = lambda step: None) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
        on_step(step)


def the_run(folder: Path) -> StoredRun:
    [run] = read_suite(folder).runs
    return run


def record(folder: Path) -> RankRecord:
    return the_run(folder).ranks[0].record


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    left, profiles._watching = profiles._watching, None
    assert left is None


def test_nothing_is_done_at_a_boundary_within_a_graph_that_is_being_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = iter([False, False, True, True])  # the first timed step is one with two captures in it
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: next(capture, False))
    with short(tmp_path / "run") as prof:
        train(ENOUGH + 2)
    assert prof.recorded
    found = record(tmp_path / "run")
    assert found.attached_loop.optimizer_steps == (1,)
    assert len(found.samples.wall_s) == 1
    assert [(note.id, note.figures) for note in found.warnings] == [("recording.graph_captures", {"steps": 1})]


def test_a_whole_recording(tmp_path: Path) -> None:
    with short(tmp_path / "run", name="mine", units_per_step=3, unit="tokens") as prof:
        assert prof.active
        train(ENOUGH)
        assert not prof.active
    run = the_run(prof.folder)
    [rank] = run.ranks
    assert (run.variant, run.spec.workload.name, run.run.status) == ("mine", "mine", RunStatus.OK)
    assert (rank.record.status, rank.record.reason, rank.record.warnings) == (RunStatus.OK, "", ())
    assert (rank.trace is not None, rank.memory is not None) == (True, True)
    assert len(rank.record.samples.wall_s) == 2
    attached = rank.record.attached_loop
    assert (attached.optimizer_steps, attached.backwards, attached.forwards) == ((1, 1),) * 3
    assert attached.instrumented_s.keys() == {"trace", "memory"}
    assert len(attached.instrumented_s["trace"]) == 1
    assert attached.optimizers == ("SGD, 2 parameters",)
    assert attached.models == ("Linear",)
    assert (rank.record.workload.units_per_batch, rank.record.workload.unit) == (3, "tokens")
    assert rank.record.workload.parameters == 5


def update_by_hand(steps: int, accumulate: int = 1, on_step: Callable[[], object] = lambda: None) -> None:
    model = nn.Linear(4, 1)
    for step in range(steps * accumulate):
        model(torch.ones(8, 4)).sum().backward()
        if (step + 1) % accumulate == 0:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
            on_step()


def test_without_an_optimizer_backward_passes_are_steps(tmp_path: Path) -> None:
    gc.collect()  # optimizers of other tests
    # A step that begins with a backward pass has no forward pass: the model is heard from the next on.
    with short(tmp_path / "run", schedule=Schedule(warmup=3, max_warmup=3, timed=2, trace=1, memory=1)):
        update_by_hand(ENOUGH + 14)
    found = record(tmp_path / "run")
    assert found.status == RunStatus.OK
    assert found.attached_loop.step_marker.startswith("backward passes")
    assert (found.attached_loop.backwards, found.attached_loop.forwards) == ((1, 1), (1, 1))
    assert (found.attached_loop.models, found.workload.parameters) == (("Linear",), 5)
    assert found.workload.units_per_batch == 8
    assert found.attached_loop.instrumented_s.keys() == {"trace", "memory"}


def test_one_step_of_warm_up_is_enough_to_count_samples(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with short(tmp_path / "run"):
        for _ in range(8):
            optimizer.zero_grad()
            model(torch.ones(8, 4)).sum().backward()
            optimizer.step()
    assert record(tmp_path / "run").workload.units_per_batch == 8


def test_gradients_that_are_accumulated_wait_for_whoever_clears_them(tmp_path: Path) -> None:
    with short(tmp_path / "run") as prof:
        update_by_hand(8, accumulate=5)
    assert not prof.recorded


def test_steps_told_by_hand_find_the_models_that_hold_gradients(tmp_path: Path) -> None:
    """Also where they are cleared when the step is told."""
    with perfkit.profile(tmp_path / "run", schedule=SHORT, report=False).start(by_hand=True) as prof:
        update_by_hand(ENOUGH, on_step=prof.step)
    found = record(tmp_path / "run")
    assert (found.attached_loop.models, found.workload.parameters) == (("Linear",), 5)
    assert found.attached_loop.forwards == (1, 1)


@pytest.mark.parametrize("steps", [2, 3, 5, 6])
def test_a_loop_that_is_too_short_keeps_what_was_recorded(steps: int, tmp_path: Path) -> None:
    with short(tmp_path / "run"):
        train(steps)
    found = record(tmp_path / "run")
    assert found.status == RunStatus.OK
    assert (found.warnings[-1].id, found.warnings[-1].figures) == ("recording.loop_ended", {"steps": steps})
    assert found.attached_loop.steps_seen == steps
    assert len(found.samples.wall_s) == min(2, max(0, steps - 2))


def test_a_loop_of_one_step(tmp_path: Path) -> None:
    with short(tmp_path / "run"):
        train(1)
    assert record(tmp_path / "run").samples.wall_s == ()


def test_no_loop_at_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with short(tmp_path / "run") as prof:
        torch.ones(2).sum()
    assert not prof.active
    [line] = caplog.records
    assert "no optimizer step" in line.getMessage()
    assert not (tmp_path / "run" / "suite.json").exists()


@pytest.mark.parametrize("at", [0, 2, 4, ENOUGH])
def test_an_exception_passes_and_is_written_down(at: int, tmp_path: Path) -> None:
    def fail(step: int) -> None:
        if step == at:
            raise ValueError("diverged")

    with pytest.raises(ValueError, match="diverged"), short(tmp_path / "run"):
        train(at + 1, fail)
    run = the_run(tmp_path / "run")
    found = run.ranks[0].record
    assert (run.run.status, run.run.reason) == (RunStatus.FAILED, "ValueError: diverged")
    assert (found.status, found.reason) == (RunStatus.FAILED, "ValueError: diverged")
    assert "in fail" in found.traceback
    assert "perfkit/attach" not in found.traceback


def test_a_long_message_does_not_make_a_long_record(tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise ValueError("x" * 3_000_000)

    with pytest.raises(ValueError, match="xxx"), short(tmp_path / "run"):
        train(1, fail)
    files = [path for path in (tmp_path / "run").rglob("*.json") if path.name in ("record.json", "run.json")]
    assert len(files) == 2
    assert max(path.stat().st_size for path in files) < 2 * TEXT_CHARS


@pytest.mark.parametrize(
    ("code", "status"), [(0, RunStatus.OK), (None, RunStatus.OK), (3, RunStatus.FAILED), ("no data", RunStatus.FAILED)]
)
def test_a_program_that_exits(code: Any, status: RunStatus, tmp_path: Path) -> None:
    def leave(step: int) -> None:
        if step == ENOUGH - 1:
            sys.exit(code)

    with pytest.raises(SystemExit) as raised, short(tmp_path / "run"):
        train(ENOUGH, leave)
    assert raised.value.code == code
    assert record(tmp_path / "run").status == status


def test_steps_of_a_critic_and_a_generator_are_those_of_the_generator(tmp_path: Path) -> None:
    """Before the generator is known the critic's updates are taken for steps; and the last step ends with an exit."""
    critic, generator = nn.Linear(4, 1), nn.Linear(2, 4)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (critic, generator)]

    def play() -> None:
        for _ in range(7):
            for optimizer in (optimizers[0], optimizers[0], optimizers[1]):
                optimizer.zero_grad()
                critic(generator(torch.ones(8, 2))).sum().backward()
                optimizer.step()
        sys.exit(3)

    with pytest.raises(SystemExit), short(tmp_path / "run"):
        play()
    loop = record(tmp_path / "run").attached_loop
    assert loop is not None
    assert loop.steps_seen == 7


def test_an_interruption(tmp_path: Path) -> None:
    def interrupt(step: int) -> None:
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), short(tmp_path / "run"):
        train(ENOUGH, interrupt)
    assert record(tmp_path / "run").status == RunStatus.INTERRUPTED


def test_started_stopped_and_started_again(tmp_path: Path) -> None:
    prof = short(tmp_path / "run")
    folders = []
    for _ in range(2):
        assert prof.start() is prof
        train(ENOUGH)
        prof.stop()
        prof.stop()
        prof.step()
        folders.append(prof.folder)
    assert folders == [tmp_path / "run", tmp_path / "run-2"]
    assert [record(folder).status for folder in folders] == [RunStatus.OK] * 2


def test_an_interruption_of_its_end_passes_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watcher, "write_report", interrupted)
    prof = short(tmp_path / "run", report=True).start()
    train(4)
    with pytest.raises(KeyboardInterrupt):
        prof.stop()
    assert (prof.active, profiles._watching) == (False, None)
    assert record(tmp_path / "run").status == RunStatus.OK


def test_without_being_started_nothing_happens(tmp_path: Path) -> None:
    prof = short(tmp_path / "run")
    prof.step()
    prof.evaluated()
    prof.stop()
    train(2)
    assert (prof.active, prof.folder, list(tmp_path.iterdir())) == (False, tmp_path / "run", [])


def test_of_nested_ones_the_outer_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with short(tmp_path / "outer") as outer:
        train(1)
        with short(tmp_path / "inner") as inner:
            train(ENOUGH)
            inner.step()
            assert not inner.active
        train(1)
    [line] = caplog.records
    assert (line.levelno, "inner" in line.getMessage()) == (logging.WARNING, True)
    assert record(outer.folder).status == RunStatus.OK
    assert not (tmp_path / "inner").exists()


def test_models_and_optimizers_that_are_given(tmp_path: Path) -> None:
    used, unused = nn.Linear(3, 1), nn.Linear(2, 1)
    optimizer = torch.optim.Adam([*used.parameters(), *unused.parameters()])
    with short(tmp_path / "run", model={"used": used, "unused": unused}, optimizer=optimizer):
        for _ in range(ENOUGH):
            used(torch.ones(4, 3)).sum().backward()
            optimizer.step()
    found = record(tmp_path / "run")
    assert found.attached_loop.models == ("Linear", "Linear")
    assert found.attached_loop.optimizers == ("Adam, 4 parameters",)
    assert (found.workload.parameters, found.workload.units_per_batch) == (7, 0), "which of two models is not known"


def test_steps_by_hand_without_any_optimizer_of_torch(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    with short(tmp_path / "run", model=model) as prof:
        for _ in range(ENOUGH):
            model(torch.ones(2, 4)).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter.sub_(0.01 * parameter.grad)
                    parameter.grad = None
            prof.step()
    found = record(prof.folder)
    assert (found.status, found.warnings) == (RunStatus.OK, ())
    assert ("step()" in found.attached_loop.step_marker, found.attached_loop.optimizers) == (True, ())
    assert found.attached_loop.optimizer_steps == (0, 0)
    assert found.attached_loop.backwards == (1, 1)


def test_steps_by_hand_go_before_the_optimizers(tmp_path: Path) -> None:
    with short(tmp_path / "run") as prof:
        train(2 * ENOUGH, lambda step: prof.step() if step % 2 else None)
    found = record(prof.folder).attached_loop
    assert found.optimizer_steps == (2, 2)


def test_so_many_optimizer_steps_as_are_asked_for(tmp_path: Path) -> None:
    with short(tmp_path / "run", step_every=2) as prof:
        train(2 * ENOUGH)
    found = record(prof.folder).attached_loop
    assert (found.optimizer_steps, "2 optimizer steps" in found.step_marker) == ((2, 2), True)


class Board:
    """A logger that writes down what it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[int, Mapping[str, float]]] = []
        self.reports: list[Path] = []
        self.closed = 0

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.got.append((step, values))

    def report(self, folder: Path) -> None:
        self.reports.append(folder)

    def close(self) -> None:
        self.closed += 1


def test_loggers_get_the_figures_of_a_finished_recording(tmp_path: Path) -> None:
    board = Board()
    with short(tmp_path / "run", loggers=[board]):
        train(ENOUGH)
    [(_, values)] = board.got
    assert values["perfkit/step_s"] > 0
    assert (board.reports, board.closed) == ([], 1)


def test_loggers_are_the_first_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfkit.attach import loop_session
    from perfkit.techniques.base.state import World

    board, told = Board(), tmp_path / "run"
    monkeypatch.setattr(loop_session, "get_world", lambda: World(rank=1, size=2, local_rank=1))
    monkeypatch.setattr(loop_session, "share_decision", lambda world, name, decide: str(told))
    with short(told, loggers=[board]):
        train(ENOUGH)
    assert (board.got, board.closed) == ([], 0)
    assert [each.name for each in told.rglob("record.json")] == ["record.json"]
    assert not (told / "suite.json").exists()


@pytest.mark.slow
def test_watched_all_the_time_with_a_trace_when_asked_for(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with short(tmp_path / "run", name="loop", always_on=True, trace_on=["file"]) as prof:
        for step in range(3000):  # once a second it is looked for the file
            model(torch.ones(8, 4)).sum().backward()
            optimizer.step()
            if step == ENOUGH:
                (prof.folder / "trace-now").touch()
            if step > ENOUGH:
                time.sleep(0.005)
            if list(prof.folder.glob("loop@*/0/run.json")):
                break
        assert prof.active
    assert not prof.active
    runs = {run.variant: run for run in read_suite(prof.folder).runs}
    [captured] = [name for name in runs if name != "loop"]
    assert captured.startswith("loop@step")
    assert read_suite(prof.folder).suite.baselines == {captured: "loop"}
    assert runs[captured].ranks[0].trace is not None
    lines = list(read_live(prof.folder / runs["loop"].path / "rank0" / "live.jsonl"))
    assert isinstance(lines[0], LiveStart)
    assert any(isinstance(line, LiveWindow) for line in lines)
    assert [line.kind for line in lines if isinstance(line, LiveEvent)][-1] == "end"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trace_on": ["file"]}, "always_on=True"),
        ({"on_outlier": print}, "always_on=True"),
        ({"on_drift": print}, "always_on=True"),
        ({"flops_per_step": 1e9}, "always_on=True"),
        ({"always_on": True, "trace_on": ["regresion"]}, "did you mean 'regression'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        short(tmp_path / "run", **options)


def test_when_switched_off_the_profiler_is_ended_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures = 0

    def spoil(step: int) -> None:
        nonlocal failures
        if torch._C._autograd._profiler_enabled() and not failures:
            failures += 1
            prof._watcher.guard(lambda: 1 / 0)  # type: ignore[union-attr]

    with short(tmp_path / "run") as prof:
        train(ENOUGH, spoil)
        assert not torch._C._autograd._profiler_enabled()
    assert failures == 1
    [line] = caplog.records
    assert "ZeroDivisionError" in line.getMessage()


@pytest.mark.parametrize("steps", [3, ENOUGH])
def test_what_is_trained_is_not_kept_once_it_is_not_watched_any_more(steps: int, tmp_path: Path) -> None:
    gone: list[weakref.ref[Any]] = []

    def train_and_forget() -> None:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        gone.extend((weakref.ref(model), weakref.ref(optimizer)))
        for _ in range(steps):
            model(torch.ones(8, 4)).sum().backward()
            optimizer.step()

    with short(tmp_path / "run") as prof:
        train_and_forget()
        if steps < ENOUGH:
            prof.stop()
        gc.collect()
        assert [each() for each in gone] == [None, None]


PROGRAM = """
import os, signal, sys, torch, perfkit
from perfkit.core.spec import Schedule
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
prof = perfkit.profile("run", schedule=Schedule(warmup=1, max_warmup=1, timed=2, trace=1, memory=1), report=False)
prof.start()
for step in range(8):
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    if step == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    if step == int(sys.argv[2]):
        raise ValueError("diverged")
"""


def run_program(folder: Path, *, kill: int = -1, fail: int = -1) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(kill), str(fail)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_program_that_never_stops_it(tmp_path: Path) -> None:
    assert run_program(tmp_path).returncode == 0
    assert record(tmp_path / "run").status == RunStatus.OK


@pytest.mark.slow
def test_a_program_that_fails_without_stopping_it(tmp_path: Path) -> None:
    done = run_program(tmp_path, fail=5)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: diverged")
    assert (record(tmp_path / "run").status, record(tmp_path / "run").reason) == (
        RunStatus.FAILED,
        "ValueError: diverged",
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "timed"), [(2, 0), (5, 2), (7, 2)])
def test_a_program_that_is_killed_leaves_what_can_be_read(kill: int, timed: int, tmp_path: Path) -> None:
    assert run_program(tmp_path, kill=kill).returncode == -signal.SIGKILL
    run = the_run(tmp_path / "run")
    assert run.run.status == RunStatus.INTERRUPTED
    assert len(run.ranks[0].record.samples.wall_s) == timed


def train_by_evaluations(steps: int, each: int, on_evaluation: Callable[[], object] = lambda: None) -> list[float]:
    """As LBFGS does: an optimizer whose step runs the passes, `each` times."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=each, max_eval=each, tolerance_change=0.0)
    losses = []

    def closure() -> torch.Tensor:
        on_evaluation()
        optimizer.zero_grad()
        loss = model(torch.ones(8, 4)).square().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return losses


@pytest.mark.parametrize("room", [1.0, 0.0], ids=["fits", "does not"])
def test_a_recording_that_outgrows_its_memory_ends_in_the_middle_of_a_step(
    room: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident = 0
    on: list[bool] = []

    def grows() -> None:
        nonlocal resident
        resident += 2**30 * torch._C._autograd._profiler_enabled()
        on.append(torch._C._autograd._profiler_enabled())

    alone = train_by_evaluations(ENOUGH, 6)
    monkeypatch.setattr(budgets, "_PERIOD_S", 0.0)
    with short(tmp_path / "run", max_memory=2**30 * (0.5 + 1000 * room)) as prof:
        prof._watcher.session.budget._memory = lambda: HostMemory(resident, 2**40, 2**40)  # type: ignore[union-attr]
        losses = train_by_evaluations(ENOUGH, 6, grows)
    found = record(tmp_path / "run")
    assert losses == alone
    assert found.status == RunStatus.OK
    assert (prof.failure, torch._C._autograd._profiler_enabled()) == ("", False)
    assert found.attached_loop is not None
    cut = [note for note in found.warnings if note.id == "recording.trace_cut"]
    assert ("trace" in found.attached_loop.early_end_reasons, bool(cut)) == (not room, not room)
    if not room:
        assert sum(on) == 1, "it ended before the second evaluation"
        assert found.attached_loop.instrumented_s["trace"] == ()
        assert "recording.memory_budget" in [note.id for note in found.warnings]


def test_a_whole_number_of_samples_is_one_however_it_is_written(tmp_path: Path) -> None:
    hz = short(tmp_path, stacks=100.0)._order.wishes.stacks_hz
    assert (hz, type(hz)) == (100, int)


def test_before_anything_was_recorded_it_says_so(tmp_path: Path) -> None:
    summary = perfkit.profile(tmp_path / "a<b").summary()
    assert "recorded" in str(summary)
    assert "a<b" in str(summary)
    assert repr(summary) == str(summary)
    assert "a&lt;b" in summary._repr_html_()


@pytest.mark.slow
def test_a_folder_that_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    rank = tmp_path / "x" / "0" / "rank0"
    rank.mkdir(parents=True)
    (rank / "record.json").write_text("{")
    (tmp_path / "suite.json").write_text("{")
    summary = build_summary(tmp_path)
    assert "suite.json" in str(summary)
    assert "Traceback" not in str(summary)


def test_text_and_page() -> None:
    summary = RunSummary(text="12 ms a step", page="<b>12 ms</b>")
    assert f"{summary}" == "12 ms a step"
    assert summary._repr_html_() == "<b>12 ms</b>"
