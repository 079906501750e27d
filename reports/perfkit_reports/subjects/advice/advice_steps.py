"""What to do after advice: a table of goals with their commands."""

import shlex
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from perfkit.plan.advise.advice import Advice
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.advice.advice_headline import is_goal_unknown, list_alternatives

_FIRST = 3  # options that are worth a measurement


class AdvisedStep(NamedTuple):
    """A goal, the techniques that reach it, and the command to run."""

    goal: str
    choice: str
    command: str


def build_next_steps(advice: Advice) -> Iterator[Table]:
    """The table; nothing where no technique is worth a command."""
    steps = tuple(list_next_steps(advice))
    if steps:
        yield Table(
            id="next-steps",
            title="What to do",
            whole=True,
            columns=_COLUMNS,
            rows=steps,
            what="step",
            weight=Weight.BRIEF,
        )


def list_next_steps(advice: Advice) -> Iterator[AdvisedStep]:
    """Measure the best combination and its parts, or look at what was measured; find what is unknown."""
    if is_goal_unknown(advice):
        if advice.goal in ("time", "cost") and any(note.id == "advice.no_step_time" for note in advice.notes):
            yield AdvisedStep("Learn step times", "this machine", "perfkit calibrate")
        if advice.goal != "memory" and any(option.saving_bytes is not None for option in advice.options):
            yield AdvisedStep("Save memory", "all", f"{advice.command} --goal memory")
        return
    if advice.measured_folder:
        yield AdvisedStep("Open measurements", "all", f"perfkit report {shlex.quote(advice.measured_folder)}")
    elif advice.bench_command:
        yield from _list_measurements(advice)
    else:
        yield from _list_readings(advice)
    if any(note.id == "advice.changes_results" and note.figures["fits"] is not False for note in advice.notes):
        yield AdvisedStep("Allow changed results", "any technique", f"{advice.command} --allow any")


def _list_measurements(advice: Advice) -> Iterator[AdvisedStep]:
    best = advice.best
    if best is not None:
        yield AdvisedStep("Measure the best", best.name, _format_measurement(advice, best.name))
    names = [option.name for option in islice(list_alternatives(advice), _FIRST)]
    if names:
        title = "Measure alone" if best is not None and "+" in best.name else "Measure the next"
        yield AdvisedStep(title, ", ".join(names), _format_measurement(advice, ",".join(names)))


def _format_measurement(advice: Advice, techniques: str) -> str:
    return f"{advice.bench_command} -t {shlex.quote(techniques)}"


def _list_readings(advice: Advice) -> Iterator[AdvisedStep]:
    """Of a recorded loop, which perfkit cannot run: the pages of the techniques, then the code itself."""
    options = (advice.best,) if advice.best is not None else islice(list_alternatives(advice), _FIRST)
    names = list(dict.fromkeys(name for option in options for name in option.name.split("+")))
    for name in names:
        technique = name.partition(":")[0]
        yield AdvisedStep("Switch it on", name, f"perfkit techniques {shlex.quote(technique)}")
    if names:
        yield AdvisedStep("Measure it", names[0], f"perfkit bench -w train.py:build -t {names[0]}")


_COLUMNS: tuple[Column[AdvisedStep], ...] = (
    Column("Goal", lambda step: Cell(step.goal), numeric=False, weight=Weight.BRIEF),
    Column("Choice", lambda step: Cell(step.choice), numeric=False, weight=Weight.BRIEF),
    Column("Command", lambda step: Cell(step.command), numeric=False, wrap=True, code=True, weight=Weight.BRIEF),
)
