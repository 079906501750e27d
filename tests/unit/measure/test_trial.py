"""A trial tells what is asked of it, and leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_technique
from perfkit.measure import trial
from perfkit.measure.run_events import Event, PassStarted, RunFinished, RunStarted
from perfkit.measure.trial import TrialOutcome, judge_trial, run_trial, shorten_run
from perfkit.store.layout import get_rank_folder

SPEC = RunSpec(
    workload=WorkloadSpec(name="gpt"), techniques=(parse_technique("ckpt"),), launch=LaunchSpec(world_size=2)
)


@pytest.mark.parametrize("nodes", [1, 2])
def test_what_is_read_of_each_rank_is_all_that_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: int
) -> None:
    monkeypatch.chdir(tmp_path)
    folders: list[Path] = []

    def launch(spec: RunSpec, folder: Path, report: Callable[[str], None]) -> RunResult:
        folders.append(folder)
        report("setup")
        for rank in range(spec.launch.world_size):
            get_rank_folder(folder, rank).mkdir(parents=True)
            (get_rank_folder(folder, rank) / "told").write_text(f"by {rank}")
        return RunResult(status=RunStatus.OK, seconds=2.0)

    monkeypatch.setattr(trial, "launch_run", launch)
    events: list[Event] = []
    spec = replace(SPEC, launch=replace(SPEC.launch, nodes=nodes))
    run, found = run_trial(spec, 3, events.append, lambda rank: (rank / "told").read_text())
    assert (run.status, found) == (RunStatus.OK, ["by 0", "by 1"])
    assert not folders[0].exists()
    assert folders[0].is_relative_to(tmp_path) == (nodes > 1)  # where other machines find it
    label = "ckpt@2 (trial)"
    assert events == [
        RunStarted(3, 4, label, 0),
        PassStarted("setup"),
        RunFinished(3, 4, label, 0, RunStatus.OK, "", 2.0),
    ]


def test_a_trial_has_few_steps_and_no_instruments_but_those_asked_for() -> None:
    assert shorten_run(SPEC).passes == ()
    made = shorten_run(SPEC, ("memory",))
    assert (made.passes, made.schedule.warmup, made.schedule.max_warmup, made.schedule.timed) == (("memory",), 1, 1, 1)
    assert made.variant == SPEC.variant


def test_the_fullest_rank_of_a_run_that_ended_well_counts() -> None:
    assert judge_trial(RunResult(status=RunStatus.OK), [3.0, 5.0, 4.0]).peak_bytes == 5.0
    unknown = judge_trial(RunResult(status=RunStatus.OK), [])
    assert (unknown.fits, unknown.peak_bytes, bool(unknown.reason)) == (None, None, True)


def test_whether_memory_ended_a_run() -> None:
    lacking = judge_trial(RunResult(status=RunStatus.OUT_OF_MEMORY, reason="here"), [3.0])
    assert lacking == TrialOutcome(None, False, f"{RunStatus.OUT_OF_MEMORY}: here")
    assert judge_trial(RunResult(status=RunStatus.FAILED, reason="why"), []) == (None, None, "failed: why")
