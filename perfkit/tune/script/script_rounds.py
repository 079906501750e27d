"""Rounds of a script and its edited copies: their processes are resident and step by turns, so that all see the same
load, or follow each other where each needs the device for itself."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.core.files import read_json, write_json
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec
from perfkit.devices.accelerator import has_own_memory
from perfkit.instruments.clock import join_samples
from perfkit.measure.interleaving import protocol
from perfkit.measure.interleaving.lockstep import LEAST_TURNS, TURNS, Stepper, choose_turn_steps, warm_up
from perfkit.measure.interleaving.resident_teams import (
    Conversation,
    Team,
    TeamFailedError,
    check_ready,
    merge_team_steps,
)
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.tune.script.script_run import NOTES_FILE, ORDER_FILE, ScriptNotes, ScriptOrder

# By name: the command line is above this package, which imports nothing of it.
WORKER = "perfkit_cli.run_script.commanded_script"

# Names of files that are found by hash (sets of strings) come in the same order in all processes.
_SAME_ORDER = {"PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"}

_SCHEDULE = Schedule()


class ScriptVariant(NamedTuple):
    """The script with some edits: a `folder` in which it starts, with its own files. `nudged` and `eager_random`: see
    `ScriptOrder`."""

    name: str
    folder: Path
    nudged: bool = False
    eager_random: bool = False


class RoundSteps(NamedTuple):
    """What one process of a round has taken: the medians of its turns, the seconds of all its turns, and its notes."""

    turns: StepSamples
    total_s: float
    notes: ScriptNotes


class ScriptEndedError(UsageError):
    """A script has ended before there were enough steps to compare."""

    id = "tune.script_ended"


class VariantFailedError(PerfkitError):
    """The script fails with an edit: `variant` is its name."""

    id = "tune.variant_failed"

    def __init__(self, variant: str, reason: str) -> None:
        super().__init__(reason)
        self.variant = variant


def make_place(folder: Path) -> RankPlace:
    """The place of a process of the script in this folder, with whose modules those of the user are found."""
    return RankPlace(folder=folder.resolve(), environment=_SAME_ORDER)


def make_spec(order: ScriptOrder, device: str) -> RunSpec:
    """The run of a script as it is launched."""
    launch = LaunchSpec(device=device, timeout_s=order.limit_s)
    return RunSpec(workload=WorkloadSpec(name=Path(order.script).stem), launch=launch, schedule=_SCHEDULE)


def measure_round(
    variants: Sequence[ScriptVariant],
    order: ScriptOrder,
    folder: Path,
    *,
    device: str,
    turns_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, RoundSteps]:
    """One new process of each variant, in the new folder `folder`: the steps of each by its name.

    All take the same number of turns, for as long as they took to get ready, at most `turns_s`.

    Raises:
        ScriptEndedError: the script has too few steps.
        VariantFailedError: the script fails with the edits of a variant.
    """
    teams = {}
    for number, variant in enumerate(variants):
        own = folder / str(number)
        own.mkdir(parents=True)
        write_json(own / ORDER_FILE, replace(order, nudged=variant.nudged, eager_random=variant.eager_random))
        place = make_place(variant.folder)
        team = Team(variant.name, make_spec(order, device), own, place=place, worker=WORKER)
        teams[team] = variant
    try:
        taken = _step(list(teams), order.limit_s, turns_s, report, together=not has_own_memory(device))
    except TeamFailedError as error:
        tail = error.run.output_tail.strip()
        raise VariantFailedError(error.team.label, "\n".join(filter(None, (error.run.reason, tail)))) from None
    return {
        variant.name: RoundSteps(turns, total_s, _read_notes(team))
        for (team, variant), (turns, total_s) in zip(teams.items(), taken, strict=True)
    }


def _read_notes(team: Team) -> ScriptNotes:
    try:
        return read_json(team.folder / NOTES_FILE, ScriptNotes)
    except RunFormatError:
        raise VariantFailedError(team.label, "its process did not end in order") from None


def _step(
    teams: list[Team], limit_s: float, turns_s: float, report: Callable[[str], None], *, together: bool
) -> list[tuple[StepSamples, float]]:
    if together:
        return _step_together(teams, limit_s, turns_s, report)
    return [taken for team in teams for taken in _step_together([team], limit_s, turns_s, report)]


def _step_together(
    teams: list[Team], limit_s: float, turns_s: float, report: Callable[[str], None]
) -> list[tuple[StepSamples, float]]:
    start = time.monotonic()
    try:
        for team in teams:
            team.start()
        with Conversation(teams, start + limit_s, report) as talk:
            for team, answers in zip(teams, talk.wait(teams), strict=True):
                check_ready(team, answers)
            warming = [partial(_request_steps, team, talk, protocol.WARM_UP) for team in teams]
            warm = warm_up(warming, _SCHEDULE.warmup, _SCHEDULE.max_warmup)
            steppers = [partial(_request_steps, team, talk, protocol.TURN) for team in teams]
            for_s = min(time.monotonic() - start, turns_s)
            taken = take_turns(steppers, for_s, steps=choose_turn_steps(warm))
            for team in teams:
                team.dismiss()
    finally:
        for team in teams:
            team.end()
    return taken


def take_turns(
    steppers: Sequence[Stepper], for_s: float, clock: Callable[[], float] = time.monotonic, *, steps: int
) -> list[tuple[StepSamples, float]]:
    """Turns of `steps` steps of each in the order ABBA, for `for_s` seconds or to the end of the scripts: of each the
    medians of its turns and the seconds of all.

    A `ScriptEndedError` where they end before there are a few turns of each.
    """
    taken: list[list[StepSamples]] = [[] for _ in steppers]
    end = clock() + for_s
    try:
        while (count := len(taken[0])) < TURNS and (count < LEAST_TURNS or count % 2 or clock() < end):
            order = range(len(steppers)) if count % 2 == 0 else reversed(range(len(steppers)))
            for number, steps_taken in [(number, steppers[number](steps)) for number in order]:
                taken[number].append(steps_taken)
    except ScriptEndedError:
        if len(taken[0]) < LEAST_TURNS:
            raise
    return [_join_turns(turns) for turns in taken]


def _join_turns(turns: Sequence[StepSamples]) -> tuple[StepSamples, float]:
    joined = StepSamples()
    for turn in turns:
        joined = join_samples(joined, protocol.summarize_turn(turn))
    return joined, sum(sum(turn.wall_s) for turn in turns)


def _request_steps(team: Team, talk: Conversation, word: str, steps: int) -> StepSamples:
    team.say(f"{word} {steps}")
    taken = merge_team_steps(talk.wait([team])[0])
    if len(taken.wall_s) < steps:
        raise ScriptEndedError(
            f"{team.label}: the script ended before enough steps could be compared; give it arguments with which it "
            f"trains for at least {_SCHEDULE.max_warmup + LEAST_TURNS * steps} steps"
        )
    return taken


def find_root(script: Path) -> tuple[Path, Path]:
    """The folder whose copies are made for a script, and the script's path in it: the working folder where the script
    is in that, else the script's own."""
    here, resolved = Path.cwd().resolve(), Path(os.path.realpath(script))
    root = here if resolved.is_relative_to(here) else resolved.parent
    return root, resolved.relative_to(root)
