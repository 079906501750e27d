"""What to run after a search."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from perfkit.tune.model.tune_result import PROOF_FOLDER, TRIALS_FOLDER, TunedScript, TuneResult
from perfkit_reports.document.blocks import Block, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight


class NextCommand(NamedTuple):
    """A command with what it is for."""

    goal: str
    command: str


def build_commands(result: TuneResult) -> Iterator[Block]:
    """The table of commands: the patch, the measurement again, and what decides a gain that was not proven."""
    folder = shlex.quote(result.folder) if result.folder else "FOLDER"
    if result.script is not None:
        yield from _build_script_commands(result.script, folder, result)
        return
    commands = [NextCommand("See all measurements", f"perfkit report {folder}/{TRIALS_FOLDER}")]
    if result.best:
        workload, best = shlex.quote(result.workload), shlex.quote(result.best)
        commands.insert(0, NextCommand("Measure again", f"perfkit bench -w {workload} -t {best}"))
    commands = [*_list_patch_commands(result), *commands]
    if result.conclusion == "not proven":
        commands.insert(
            0, NextCommand("Decide", f"perfkit bench --into {folder}/{PROOF_FOLDER} -t {best} --precision 1%")
        )
    yield _build_table(commands)


def _build_script_commands(script: TunedScript, folder: str, result: TuneResult) -> Iterator[Block]:
    """What to run after the search for edits of a script."""
    own = ("--", *script.arguments) if script.arguments else ()
    again = shlex.join(("perfkit", "tune", *_list_options(result), script.path, *own))
    commands = [NextCommand("Search again", again)]
    commands = [*_list_patch_commands(result), *commands]
    if result.conclusion == "interrupted":
        commands.insert(0, NextCommand("Continue", f"perfkit tune --resume {folder}"))
    yield _build_table(commands)


def _list_options(result: TuneResult) -> Iterator[str]:
    """What was asked of the search other than the defaults."""
    if result.objective != "time":
        yield from ("--objective", result.objective)
    if result.allow != "tolerance":
        yield from ("--allow", result.allow)
    if result.limit_bytes is not None:
        yield from ("--memory", f"{result.limit_bytes / 2**30:.6g}GiB")


def _list_patch_commands(result: TuneResult) -> list[NextCommand]:
    patch = result.patch
    if patch is None or not patch.apply:
        return []
    return [NextCommand("Apply the patch", patch.apply), NextCommand("Take the patch back", patch.undo)]


def _build_table(commands: list[NextCommand]) -> Table:
    return Table(
        id="next",
        title="What to do",
        columns=_COMMAND_COLUMNS,
        rows=commands,
        what="command",
        weight=Weight.BRIEF,
        whole=True,
    )


_COMMAND_COLUMNS: tuple[Column[NextCommand], ...] = (
    Column("Goal", lambda row: Cell(row.goal), numeric=False, weight=Weight.BRIEF),
    Column("Command", lambda row: Cell(row.command), numeric=False, code=True, wrap=True, weight=Weight.BRIEF),
)
