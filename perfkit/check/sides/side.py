"""One side of a comparison: its code, and the working folder of its processes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import perfkit
from perfkit.check.sides.revision import Revision
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord
from perfkit.core.record.run_result import RunResult, find_traceback
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.rank.foreign_imports import OTHER_TREE, OWN_TREE
from perfkit.store.layout import RECORD_FILE


@dataclass(frozen=True, kw_only=True)
class MeasuredSide:
    """One side of a comparison.

    Attributes:
        label: its name for users.
        root: the working folder of its processes, which contains workloads such as `train.py:build`.
        python_path: folders, absolute or relative to `root`, that precede all others in its import path.
        tree: the folder that holds all of its code; `root` is this or a folder in it.
        notes: missing parts of its code, reported with its failures.
        interpreter: the Python of its processes; None: this process's.
        variables: environment variables of its processes alone; None removes one.
    """

    label: str
    root: Path
    tree: Path
    python_path: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    interpreter: Path | None = None
    variables: Mapping[str, str | None] = field(default_factory=dict)


class SideFailedError(PerfkitError):
    """A side did not complete training: `label` names it, `run` has its outcome, `traceback` its error."""

    id = "check.side_failed"

    def __init__(self, side: MeasuredSide, run: RunResult, traceback: str = "") -> None:
        details = (traceback or run.output_tail).strip()
        lines = [f"{side.label}: {run.status}: {run.reason}", *side.notes, *([details] if details else [])]
        super().__init__("\n".join(lines))
        self.label = side.label
        self.run = run
        self.traceback = traceback


def make_side(revision: Revision, python_path: tuple[str, ...] = ()) -> MeasuredSide:
    """The side that runs the code of `revision`."""
    return MeasuredSide(
        label=revision.label,
        root=revision.path,
        tree=revision.tree,
        python_path=python_path,
        notes=revision.notes,
    )


def make_failure(side: MeasuredSide, run: RunResult, folder: Path) -> SideFailedError:
    """The error for a `run` of `side` in `folder`, with the traceback of the rank at fault."""
    records = (read_json(path, RankRecord) for path in sorted(folder.glob(f"rank*/{RECORD_FILE}")))
    return SideFailedError(side, run, find_traceback(run, records))


def place_sides(before: MeasuredSide, after: MeasuredSide) -> tuple[RankPlace, RankPlace]:
    """Places of both sides' processes. Raises `UsageError` for a missing folder.

    In perfkit's own repository, each side runs its own perfkit.
    """
    own_package = _find_perfkit_folder((before.tree, after.tree))
    return _place_side(before, after, own_package), _place_side(after, before, own_package)


def _place_side(side: MeasuredSide, other: MeasuredSide, own_package: Path | None) -> RankPlace:
    if not side.root.is_dir():
        raise UsageError(f"{side.label}: no folder {side.root}")
    folders = [side.root / folder for folder in side.python_path]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{side.label}: python_path names {folder}, which is not a folder of this side")
    if own_package is not None:
        package = side.tree / own_package / "perfkit"
        if not (package / "measure" / "interleaving" / "turn_worker.py").is_file():
            raise PerfkitError(
                f"{side.label}: the perfkit in {package} predates `perfkit check`; compare with a revision that has it"
            )
        folders.append(side.tree / own_package)
    inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    environment = {**side.variables, OWN_TREE: str(side.tree.resolve()), OTHER_TREE: str(other.tree.resolve())}
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join([*(str(folder.resolve()) for folder in folders), *inherited])
    return RankPlace(folder=side.root.resolve(), environment=environment, interpreter=side.interpreter)


def _find_perfkit_folder(trees: tuple[Path, Path]) -> Path | None:
    """Path of perfkit's package in the repository under test; None in other repositories."""
    package = Path(perfkit.__file__).resolve().parent
    for tree in trees:
        home = package.parent
        if home.is_relative_to(tree.resolve()) and "site-packages" not in home.parts:
            return home.relative_to(tree.resolve())
    return None
