"""What is done to a loop step by step, driven by hand, with instruments that only say that they are on."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from perfkit.attach import recording_plan as programs
from perfkit.attach.host.budget import FLOOR_S, HostMemory, RecordingBudget
from perfkit.attach.host.guard import Guard
from perfkit.attach.host.profiler_turn import ProfilerTaken
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.attach.loop_session import LoopOptions, LoopSession
from perfkit.attach.recording_plan import record_passes
from perfkit.core.allocations import Allocations, build_allocations
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Schedule
from perfkit.instruments.lost_kernels import KernelCount
from perfkit.instruments.open_ranges import OpenRangeError
from perfkit.instruments.recording import EndNow, Recording
from perfkit.instruments.trace_recording import RecordedTrace
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.techniques.base.state import World
from tests.fixtures.allocator_history import AllocatorHistory

NOTHING = RecordedTrace()


class Hooks:
    def __init__(self) -> None:
        self.listened: list[tuple[nn.Module, ...]] = []
        self.guard = Guard(lambda: None)

    def listen(self, modules: Iterable[nn.Module]) -> None:
        self.listened.append(tuple(modules))

    def guard(self, function: Callable[..., object], *args: object) -> None:
        function(*args)


class Driven:
    """A program over a small model; `log` has what is on during each step."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        lasting: tuple[str, ...] = (),
        kernels: KernelCount | None = None,
        **counts: Any,
    ) -> None:
        self.on = "nothing"
        self.log: list[str] = []
        self.model = nn.Sequential(nn.Sequential(nn.Linear(2, 1)))
        self.loop = LoopFollower(StepFinder(), lambda: None)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loop.stepped(self.optimizer)
        self.hooks: Any = Hooks()
        schedule = Schedule(**{"warmup": 1, "max_warmup": 1, "timed": 2, "trace": 1, "memory": 1, **counts})
        wishes = LoopOptions(
            folder=folder, name="loop", models={}, schedule=schedule, units_per_step=None, unit="samples"
        )
        self.session = LoopSession(wishes, self.loop)
        self.recording = self.session.open()

        def traced(count: int, *_: Any, **__: Any) -> Recording[RecordedTrace]:
            return (yield from self._instrument_and("trace", count, RecordedTrace(lasting, kernels, session=2)))

        monkeypatch.setattr(programs, "record_trace", traced)
        monkeypatch.setattr(programs, "_record_memory", lambda session, _: self._instrument("memory", schedule.memory))

    def _instrument_and(self, name: str, count: int, found: RecordedTrace = NOTHING) -> Recording[RecordedTrace]:
        yield from self._instrument(name, count)
        return found

    def _instrument(self, name: str, count: int) -> Recording[None]:
        self.on = name
        try:
            for _ in range(count):
                yield
        finally:
            self.on = "nothing"

    def run(self, called: nn.Module | None = None) -> list[str]:
        for _ in record_passes(self.session, self.recording, self.hooks):
            if called is not None and any(each is called for each in self.hooks.listened[-1]):
                self.loop.forward(called, (), {})
            self.log.append(self.on)
            self.session.steps += 1
        return self.log


def test_one_pass_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path / "run", monkeypatch, warmup=2, max_warmup=2, timed=3, trace=2, memory=1)
    assert driven.run() == ["nothing"] * 5 + ["trace"] * 2 + ["nothing"] + ["memory"]
    assert (len(driven.recording.warmup), len(driven.recording.series), driven.recording.first_timed) == (2, 3, 2)
    found = driven.recording.recorder.record
    assert (found.status, found.reason, len(found.samples.wall_s)) == (RunStatus.OK, "", 3)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [({"trace": 0}, ["memory"]), ({"memory": 0}, ["trace"]), ({"trace": 0, "memory": 0}, [])],
)
def test_passes_that_are_not_wanted(
    counts: dict[str, Any], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Driven(tmp_path / "run", monkeypatch, **counts).run() == ["nothing"] * 3 + expected


def test_a_range_that_lasts_keeps_memory_from_being_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path / "run", monkeypatch, lasting=("epoch",))
    assert "memory" not in driven.run()
    assert [note.id for note in driven.recording.warnings] == ["recording.open_range"]
    assert str(OpenRangeError(("epoch",))) in driven.recording.warnings[0].text
    assert driven.recording.recorder.record.status == RunStatus.OK


def test_kernels_that_a_trace_lost_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path / "run", monkeypatch, kernels=KernelCount(launched=1000, lost=250, graphs=0))
    assert driven.run().count("trace") == 1  # somebody else's loop is not traced again
    (warning,) = driven.recording.warnings
    assert (warning.id, warning.figures) == ("recording.lost_kernels", {"lost": 250, "launched": 1000})


def test_the_programs_own_profiler_goes_first_and_ours_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path / "run", monkeypatch)
    running = record_passes(driven.session, driven.recording, driven.hooks)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        for _ in range(9):
            next(running)
            assert driven.on == "nothing"
        assert driven.recording.waiting is not None
        assert driven.recording.waiting.id == "recording.profiler_busy"
    assert [driven.on for _ in running] == ["trace", "nothing", "memory"]
    assert (driven.recording.waiting, driven.recording.warnings) == (None, [])


def test_a_profiler_of_the_programs_that_stays_on_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path / "run", monkeypatch)
    monkeypatch.setattr(programs, "_LONGEST_WAIT_S", -1.0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert set(driven.run()) == {"nothing"}
    assert [note.id for note in driven.recording.warnings] == ["recording.profiler_busy", "recording.profiler_busy"]


def test_several_ranks_do_not_wait_for_a_profiler_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path / "run", monkeypatch)
    driven.session.world = World(rank=1, size=2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert set(driven.run()) == {"nothing"}
    assert [note.id for note in driven.recording.warnings] == ["recording.profiler_busy", "recording.profiler_busy"]


@pytest.mark.parametrize(("cuts", "expected"), [(1, []), (3, ["recording.trace_profiler_began"])])
def test_a_trace_that_the_programs_profiler_cut_is_tried_again(
    cuts: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path / "run", monkeypatch, trace=3, memory=0)
    running = record_passes(driven.session, driven.recording, driven.hooks)
    for _ in range(cuts):
        while driven.on != "trace":
            next(running)
        driven.session.profiler.theirs = True
        with suppress(StopIteration):
            running.throw(ProfilerTaken())
        assert driven.on == "nothing"
        driven.session.profiler.theirs = False
    assert [driven.on for _ in running] == (["trace"] * 3 if not expected else [])
    assert [note.id for note in driven.recording.warnings] == expected


def test_an_allocator_that_reports_nothing_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "explain_unreported", lambda device: f"nothing is seen on {device}")
    driven = Driven(tmp_path / "run", monkeypatch)
    assert "memory" not in driven.run()
    assert [note.id for note in driven.recording.warnings] == ["recording.memory_unreported"]


def test_a_history_that_the_program_records_itself_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = programs._record_memory
    driven = Driven(tmp_path / "run", monkeypatch)
    own = AllocatorHistory().install(monkeypatch)
    own._record_memory_history()

    def recorded(count: int, *_: Any, history: AbstractContextManager[object], **__: Any) -> Recording[Allocations]:
        with history:
            for _step in range(count):
                own.allocate(512)
                yield
        return build_allocations(device="cuda:0", source="", size=[512], time_ns=[1], address=[1])

    monkeypatch.setattr(programs, "record_memory", recorded)
    driven.session.trained = TrainedModels(torch.device("cuda", 0), {}, ())
    assert len([*memory(driven.session, driven.recording)]) == 1
    assert len(own.entries) == 1, "what the program recorded is there, and goes on"
    assert own.on
    (warning,) = driven.recording.warnings
    assert warning.id == "recording.history_taken"
    assert (driven.recording.recorder.folder / "memory.parquet").exists(), "the profiler's events are there"


def test_warm_up_lasts_until_steady_and_no_longer_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "is_steady", lambda walls: len(walls) == 4)
    driven = Driven(tmp_path / "run", monkeypatch, warmup=2, max_warmup=9)
    driven.run()
    assert (len(driven.recording.warmup), driven.recording.steady) == (4, True)
    monkeypatch.setattr(programs, "is_steady", lambda walls: False)
    driven = Driven(tmp_path / "run", monkeypatch, warmup=2, max_warmup=5)
    driven.run()
    assert (len(driven.recording.warmup), driven.recording.steady) == (5, False)


def test_several_ranks_warm_up_for_the_same_number_of_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "is_steady", lambda walls: False)
    driven = Driven(tmp_path / "run", monkeypatch, warmup=3, max_warmup=9)
    driven.session.world = World(rank=0, size=2)
    driven.run()
    assert len(driven.recording.warmup) == 3


def test_all_modules_are_listened_to_until_it_is_known_which_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "is_steady", lambda walls: False)
    driven = Driven(tmp_path / "run", monkeypatch, warmup=9, max_warmup=9)
    inner = driven.model[0]
    driven.run(called=inner)
    assert driven.hooks.listened == [
        (driven.model, inner, inner[0]),
        (driven.model, inner),
        (driven.model, inner, inner[0]),
    ]  # type: ignore[index]
    assert driven.loop.largest is inner


def test_where_no_module_is_ever_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "is_steady", lambda walls: False)
    driven = Driven(tmp_path / "run", monkeypatch, warmup=12, max_warmup=12)
    driven.run()
    inner = driven.model[0]
    assert driven.hooks.listened == [(driven.model, inner, inner[0]), (driven.model, inner, inner[0])]  # type: ignore[index]
    assert driven.loop.largest is None


def test_a_loop_that_ends_within_a_pass_ends_its_instrument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path / "run", monkeypatch, trace=5)
    running = record_passes(driven.session, driven.recording, driven.hooks)
    while driven.on == "nothing":
        next(running)
    running.close()
    assert driven.on == "nothing"
    assert driven.recording.recorder.record.status == RunStatus.CRASHED  # until the session says how it ended


def test_memory_that_would_cost_more_than_recordings_may_take_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, monkeypatch)
    monkeypatch.setattr(programs, "estimate_memory_cost_s", lambda *_: 10 * FLOOR_S)
    assert "memory" not in driven.run()
    (warning,) = (note.text for note in driven.recording.warnings if note.id == "recording.memory_budget")
    assert "--overhead" in warning
    assert "s later" in warning, "it says when it would have fit"


def passing(driven: Driven, monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    """Each step takes so long, and recording memory 20 s."""
    monkeypatch.setattr(programs, "estimate_memory_cost_s", lambda *_: 2 * FLOOR_S)
    roomy = HostMemory(resident=1, available=2**40, total=2**40)
    driven.recording.budget = RecordingBudget(clock=lambda: driven.session.steps * step_s, memory=lambda: roomy)


def test_memory_is_recorded_once_the_loop_has_lasted_long_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, monkeypatch)
    passing(driven, monkeypatch, step_s=10.0)
    log = driven.run()
    assert 40 <= log.index("memory") <= 42  # 20 s are 5 % of 400 s
    assert (driven.recording.warnings, driven.recording.waiting) == ([], None)


def test_a_loop_that_ends_while_memory_waits_for_time_says_when_it_would_have_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, monkeypatch)
    passing(driven, monkeypatch, step_s=10.0)
    running = record_passes(driven.session, driven.recording, driven.hooks)
    for _ in range(9):
        next(running)
        driven.session.steps += 1
    running.close()
    waiting = driven.recording.waiting
    assert waiting is not None
    assert waiting.id == "recording.memory_budget"
    assert "--overhead" in waiting.text
    assert "later" in waiting.text


def test_several_ranks_do_not_wait_each_for_itself_and_name_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, monkeypatch)
    driven.session.world = World(rank=1, size=2)
    passing(driven, monkeypatch, step_s=10.0)
    assert "memory" not in driven.run()
    (warning,) = driven.recording.warnings
    assert (warning.id, warning.figures) == ("recording.memory_budget", {"rank": 1})
    assert warning.text.startswith("rank 1: ")


@pytest.mark.parametrize("early", [False, True])
def test_all_ranks_record_memory_in_the_same_steps_also_where_ones_trace_ended_early(
    early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, monkeypatch, trace=4)
    driven.session.world = World(rank=0, size=2)
    short = lambda count, *_, **__: driven._instrument_and("trace", 1 if early else count + 1)  # noqa: E731 - lead
    monkeypatch.setattr(programs, "record_trace", short)
    log = driven.run()
    assert log.count("trace") == (1 if early else 5)
    assert log.index("memory") == 1 + 2 + 5 + 1


def test_a_trace_that_is_cut_in_the_middle_of_a_step_is_told_and_memory_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, monkeypatch, trace=3)
    running = record_passes(driven.session, driven.recording, driven.hooks)
    while driven.on != "trace":
        next(running)
    running.throw(EndNow("it was too large"))
    assert driven.on == "nothing"
    assert list(running) == []
    assert [note.id for note in driven.recording.warnings] == ["recording.trace_cut", "recording.memory_budget"]
    assert driven.recording.recorder.record.status == RunStatus.OK


def test_nothing_is_recorded_near_the_hosts_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(tmp_path, monkeypatch)
    driven.recording.budget = RecordingBudget(memory=lambda: HostMemory(resident=1, available=1, total=2**30))
    assert {"trace", "memory"}.isdisjoint(driven.run())
    assert [note.id for note in driven.recording.warnings] == ["recording.trace_budget", "recording.memory_budget"]


@pytest.mark.parametrize("thrown", [EndNow("too large"), ProfilerTaken()], ids=["outgrown", "taken"])
def test_a_capture_of_a_loop_that_is_watched_can_be_cut_in_the_middle_of_a_step(thrown: Exception) -> None:
    skipped: list[int] = []
    watch: Any = SimpleNamespace(skip=skipped.append)
    caught: list[Exception] = []

    def capture() -> Recording[None]:
        try:
            yield
            yield
        except (EndNow, ProfilerTaken) as error:
            caught.append(error)

    running = programs._skip_recording(watch, capture())
    next(running)
    next(running)
    running.throw(thrown)
    assert (caught, len(skipped)) == ([thrown], 1)
    assert list(running) == [], "the next boundary is where the watch goes on"
