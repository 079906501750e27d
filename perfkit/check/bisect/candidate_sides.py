"""Opens a candidate as a side of a check: its checked-out commit, or its environment."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from perfkit.check.bisect.candidates import mix_locks
from perfkit.check.bisect.find_change import Compare
from perfkit.check.bisect.result import BisectCandidate
from perfkit.check.check_options import CheckOptions
from perfkit.check.config import CheckConfig
from perfkit.check.environment_check import compare_versions, open_environment
from perfkit.check.environments.named_environment import NamedEnvironment
from perfkit.check.judge.result import Check
from perfkit.check.revisions import check_sides
from perfkit.check.sides.revision import open_worktree, read_working_tree
from perfkit.check.sides.side import MeasuredSide, make_side

MakeOptions = Callable[[bool], CheckOptions]  # of whether times are measured
NameEnvironment = Callable[[int], NamedEnvironment]


def compare_commits(candidates: Sequence[BisectCandidate], out: Path, make_options: MakeOptions) -> Compare:
    """Checks of two commits, each in a worktree of its own, into folders in `out`."""

    def compare(before: int, after: int, config: CheckConfig, *, timed: bool, folder: str) -> Check:
        root = Path(config.root)
        with ExitStack() as stack:
            sides = [
                make_side(stack.enter_context(open_worktree(root, candidates[index].name)), config.python_path)
                for index in (before, after)
            ]
            labels = [f"{candidates[index].name[:12]} {candidates[index].detail}".strip() for index in (before, after)]
            old, new = (dataclasses.replace(side, label=label) for side, label in zip(sides, labels, strict=True))
            return check_sides(config, old, new, out / folder, make_options(timed))

    return compare


def compare_environments(name: NameEnvironment, out: Path, make_options: MakeOptions) -> Compare:
    """Checks of the working tree in two environments, which `name` has by the candidate's number."""

    def compare(before: int, after: int, config: CheckConfig, *, timed: bool, folder: str) -> Check:
        options = make_options(timed)
        here = make_side(read_working_tree(Path(config.root)), config.python_path)
        with _open_numbered(name(before), here, options) as old, _open_numbered(name(after), here, options) as new:
            check = check_sides(config, old[0], new[0], out / folder, options)
        differences = tuple(f"{each}: {was} -> {now}" for each, was, now in compare_versions(old[1], new[1]))
        return replace(check, under_test="environment", environment_differences=differences)

    return compare


def name_release(candidates: Sequence[BisectCandidate]) -> NameEnvironment:
    """The environment of a release: this one, with that."""
    return lambda index: NamedEnvironment(candidates[index].name, requirements=(candidates[index].name,))


def name_locks(candidates: Sequence[BisectCandidate], good: Path, bad: Path) -> NameEnvironment:
    """The environment of a candidate of lock files: the good file's packages, the first ones as in the bad file."""

    def name(index: int) -> NamedEnvironment:
        label = candidates[index].name if index == 0 else f"{candidates[index].name} {candidates[index].detail}"
        return NamedEnvironment(label, packages=mix_locks(good, bad, [each.name for each in candidates[1 : index + 1]]))

    return name


@contextmanager
def _open_numbered(
    named: NamedEnvironment, here: MeasuredSide, options: CheckOptions
) -> Iterator[tuple[MeasuredSide, dict[str, str]]]:
    with open_environment(named, dataclasses.replace(here, label=named.label), options) as opened:
        yield opened
