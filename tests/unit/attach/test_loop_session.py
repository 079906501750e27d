"""What a session finds out of a loop and writes of it."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from msgspec.structs import replace
from torch import nn

from perfkit.attach import loop_session as sessions
from perfkit.attach.loop.loop_follower import LoopFollower, StepCounts
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.attach.loop.step_timing import BoundaryStamp, StepSeries
from perfkit.attach.loop_session import LoopOptions, LoopSession
from perfkit.core.errors import PerfkitError
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Schedule
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.store.layout import CEILINGS_FILE
from perfkit.store.suite_reader import read_suite
from perfkit.store.summary import PLAN_FILE
from perfkit.techniques.base.state import World


class Watched:
    """A session over a model whose optimizer has stepped."""

    def __init__(self, folder: Path, **wishes: Any) -> None:
        self.model = nn.Linear(3, 1)
        self.loop = LoopFollower(StepFinder(), lambda: None)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loop.stepped(self.optimizer)
        stated: dict[str, Any] = {"models": {}, "schedule": Schedule(), "units_per_step": None, "unit": "samples"}
        self.session = LoopSession(LoopOptions(**{"folder": folder, "name": "loop", **stated, **wishes}), self.loop)


def test_what_is_trained_is_found(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "run")
    watched.session.open()
    assert watched.session.trained.models == {"": watched.model}
    assert watched.session.trained.device == torch.device("cpu")
    assert len(watched.session.trained.optimizers) == 1


def test_what_is_given_goes_first(tmp_path: Path) -> None:
    given = nn.Linear(2, 2)
    watched = Watched(tmp_path / "run", models={"mine": given})
    watched.session.open()
    assert watched.session.trained.models == {"mine": given}


def test_a_plan_lies_with_the_run(tmp_path: Path) -> None:
    session = Watched(tmp_path / "run", plan=b"{}").session
    session.open()
    assert (session.folder / PLAN_FILE).read_bytes() == b"{}"


def test_recordings_after_the_first_are_compared_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Watched(tmp_path / "run").session
    monkeypatch.setattr(sys, "orig_argv", ["python", "my train.py", "--hub_token", "q7Zr2"])
    recording = session.open()
    session.end(recording, RunStatus.OK)
    captured = session.begin("loop@step7", "asked for")
    session.end(captured, RunStatus.FAILED, "a reason")
    suite = read_suite(tmp_path / "run")
    assert [(run.variant, run.run.status, run.run.reason) for run in suite.runs] == [
        ("loop", RunStatus.OK, ""),
        ("loop@step7", RunStatus.FAILED, "a reason"),
    ]
    assert suite.suite.baselines == {"loop@step7": "loop"}
    assert suite.suite.command == "python 'my train.py' --hub_token REDACTED"
    assert suite.ceilings is not None
    assert suite.runs[1].ranks[0].record.attached_loop is not None


def test_a_full_disk_does_not_fail_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Watched(tmp_path / "run").session
    session.open()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    session.abandon("the disk is full")
    monkeypatch.undo()
    session.abandon("the disk was full")
    (run,) = read_suite(tmp_path / "run").runs
    assert (run.run.status, run.run.reason) == (RunStatus.FAILED, "the disk was full")


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_rank_writes_for_all(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "get_world", lambda: World(rank=rank, size=2))
    monkeypatch.setattr(sessions, "share_decision", lambda world, name, decide: str(tmp_path))
    session = Watched(tmp_path).session
    session.end(session.open(), RunStatus.OK)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")}
    own = {f"loop/0/rank{rank}/record.json"}
    assert written == own | (
        {"suite.json", "ceilings.json", "loop/0/spec.json", "loop/0/run.json"} if not rank else set()
    )


def test_where_the_first_rank_failed_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: object) -> str:
        raise PerfkitError("rank 0 ")

    monkeypatch.setattr(sessions, "share_decision", failed)
    session = Watched(tmp_path / "run").session
    with pytest.raises(PerfkitError, match=r"^rank 0 $"):
        session.open()
    assert session.main is None
    session.let_go()
    assert list(tmp_path.iterdir()) == []


def test_figures_are_of_the_timed_steps_and_unknown_ones_are_left_out(tmp_path: Path) -> None:
    session = Watched(tmp_path / "run", units_per_step=8.0).session
    recording = session.open()
    walls = [0, 2, 4, 8]
    recording.series = StepSeries(
        [BoundaryStamp(wall * 10**9, 0, None) for wall in walls], [StepCounts() for _ in range(3)]
    )
    session.write_timing(recording)
    figures = session.collect_figures(recording)
    assert (figures["perfkit/step_s"], figures["perfkit/step_max_s"], figures["perfkit/units_per_s"]) == (2, 4, 4)
    assert figures["perfkit/rss_bytes"] > 0
    assert "perfkit/data_wait_s" not in figures
    assert "perfkit/peak_allocated_bytes" not in figures


def test_without_timed_steps_there_are_no_figures(tmp_path: Path) -> None:
    session = Watched(tmp_path / "run").session
    recording = session.open()
    session.write_timing(recording)
    assert session.collect_figures(recording) == {}


def test_a_cpu_is_calibrated_once_for_the_threads_of_a_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[list[int], bool]] = []
    threads = torch.get_num_threads()

    def ceilings_for(device: str, name: str, counts: list[int], *, calibrate: bool) -> DeviceCeilings:
        asked.append((counts, calibrate))
        kept = (measured(threads),) if any(measuring for _, measuring in asked) else (measured(threads + 1),)
        return DeviceCeilings(device=device, device_name=name, fingerprint="", ceilings=kept)

    monkeypatch.setattr(sessions, "resolve_ceilings", ceilings_for)
    session = Watched(tmp_path / "run").session
    recording = session.open()
    session.calibrate()  # nothing was traced: there is nothing to hold against a ceiling
    assert asked == [([threads], False)]
    recording.instrumented_s["trace"] = (0.1,)
    for _ in range(2):
        session.calibrate()
    assert asked == [([threads], False), ([threads], True)]
    assert len(caplog.records) == 1
    assert "once" in caplog.text
    assert read_json(session.folder / CEILINGS_FILE, DeviceCeilings).ceilings == (measured(threads),)


@pytest.mark.parametrize(("device", "measures"), [("cpu", True), ("cuda", False)])
def test_what_the_report_found_refuted_is_measured_again(
    device: str, measures: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    low = replace(measured(threads), measured_at="2026-01-01")
    known = DeviceCeilings(device=device, device_name="d", fingerprint="f", ceilings=(low,))
    ceilings_cache.store_calibration(known, [], full=True)
    asked: list[bool] = []

    def ceilings_for(_: str, __: str, ___: list[int], *, calibrate: bool) -> DeviceCeilings:
        asked.append(calibrate)
        return known

    monkeypatch.setattr(sessions, "resolve_ceilings", ceilings_for)
    session = Watched(tmp_path / "run").session
    session.open()

    def report(ceiling: Ceiling) -> None:
        known = {"ceilings": {"device": device, "ceilings": [msgspec.to_builtins(ceiling)]}, "variants": []}
        (session.folder / "report.json").write_bytes(msgspec.json.encode(known))

    report(low)
    assert not session.remeasure_ceilings()
    report(replace(low, exceeded_by="work ran faster than the measured ceiling of 1 FLOP/s: measure it again"))
    assert session.remeasure_ceilings() == measures
    assert asked == [False, True][: 1 + measures]
    kept = ceilings_cache.load_ceilings("f")
    assert kept is not None
    assert kept.list_doubtful_threads() == {threads}  # nothing was really measured here: the next command does so
    assert ("measured ceiling" in caplog.text) == measures


def measured(threads: int) -> Ceiling:
    return Ceiling(
        level=CeilingLevel.MEMORY,
        dtype=None,
        value=1e10,
        unit="B/s",
        kind=CeilingKind.MEASURED,
        source="s",
        threads=threads,
    )


def test_steps_are_marked_for_our_profiler_alone(tmp_path: Path) -> None:
    session = Watched(tmp_path / "run").session
    session.mark_step()
    session.unmark_step()
    session.steps = 4
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        session.mark_step()  # a profiler of the program's
        session.unmark_step()
        with session.profiler.hold_profiler():
            session.mark_step()
            session.unmark_step()
            session.unmark_step()
    assert [event.name for event in profiler.events() or ()] == ["perfkit::step#4"]


def test_the_device_of_most_bytes() -> None:
    mixed = nn.ModuleList([nn.Linear(100, 1, device="meta"), nn.Linear(2, 1)])
    assert sessions._find_device((mixed,)) == torch.device("meta")
    assert sessions._find_device(()) == torch.device("cpu")


def test_what_is_let_go_is_held_no_longer(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "run")
    watched.session.open()
    watched.loop.largest = watched.model
    watched.session.let_go()
    assert (watched.session.roots, watched.session.trained.models, watched.session.trained.optimizers) == ((), {}, ())
    assert watched.loop.optimizers == ()
    assert watched.loop.largest is None


@pytest.mark.parametrize(("ranks", "traced"), [(None, True), ((0, 3), True), ((1,), False)])
def test_ranks_that_were_not_chosen_are_timed_and_nothing_else(
    tmp_path: Path, ranks: tuple[int, ...] | None, traced: bool
) -> None:
    session = Watched(tmp_path / "run", ranks=ranks).session  # of rank 0
    session.open()
    schedule = session.schedule
    assert (schedule.timed, bool(schedule.trace), bool(schedule.memory)) == (Schedule().timed, traced, traced)
