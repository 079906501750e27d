"""Runs `perfkit bisect`: what to search, and how to compare two candidates."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.store.summary import BISECT_FILE
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_foreign

if TYPE_CHECKING:
    from perfkit.check.bisect.find_change import Compare
    from perfkit.check.bisect.result import BisectCandidate, Bisection
    from perfkit.check.check_options import CheckOptions

COMMITS, RELEASES, LOCK_FILES = "commits", "releases", "lock files"


class BisectArguments(NamedTuple):
    """The command's arguments; None where not given."""

    good: str | None
    bad: str | None
    package: str | None
    releases: str | None
    workload: str | None
    technique: str | None
    quantity: str | None
    thresholds: tuple[str, ...]
    exact: bool
    budget: str | None
    device: str | None
    threads: int | None
    out: Path | None
    resume: Path | None


def run_search(arguments: BisectArguments, *, quiet: bool) -> "tuple[Path, Bisection]":
    """Search, and return the folder with the result; each state is written there, so that Ctrl-C loses one check."""
    from perfkit.check.bisect.find_change import find_change, start_bisection
    from perfkit.check.bisect.result import read_bisection
    from perfkit.check.check_change import load_check_config, make_check_options
    from perfkit_cli.modes.check_modes import parse_threshold_option
    from perfkit_cli.output.check_progress import show_check_progress
    from perfkit_cli.output.console import make_console

    config = load_check_config(
        workload=arguments.workload,
        technique=arguments.technique,
        thresholds=dict(map(parse_threshold_option, arguments.thresholds)),
        device=arguments.device,
        threads=arguments.threads,
        budget=arguments.budget,
        fail_on=None,
        prefix="--",
    )
    kind, candidates = list_candidates(arguments, Path(config.root))
    if arguments.resume is None:
        folder = arguments.out or Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-bisect"
        refuse_foreign(folder, BISECT_FILE, "perfkit bisect")
        bisection = start_bisection(kind, candidates, get_command_line())
    else:
        folder, bisection = arguments.resume, read_bisection(arguments.resume)
        if bisection.candidates != candidates:
            raise UsageError(
                f"{folder} searched other candidates: repeat its command, and add --resume", id="usage.conflict"
            )
    with show_check_progress(make_console(stderr=True, quiet=quiet)) as progress:

        def make_options(timed: bool) -> "CheckOptions":
            return make_check_options(config, command=get_command_line(), timed=timed, progress=progress)

        found = find_change(
            bisection,
            config,
            _make_compare(kind, candidates, arguments, folder, make_options),
            quantity=arguments.quantity,
            timed=not arguments.exact,
            save=lambda state: write_json(folder / BISECT_FILE, state),
        )
    return folder, found


def list_candidates(arguments: BisectArguments, root: Path) -> "tuple[str, tuple[BisectCandidate, ...]]":
    """What is searched: releases with `--package`, lock files if both ends are files, else commits."""
    from perfkit.check.bisect.candidates import list_commits, list_lock_lines, list_releases

    good, bad = arguments.good, arguments.bad
    if good is None:
        raise UsageError(
            "--good is needed: a commit, a release or a lock file that was fast", id="usage.missing_option"
        )
    if arguments.package is not None:
        if bad is None:
            raise UsageError("--package needs --bad, a release that is slow", id="usage.missing_option")
        given = None if arguments.releases is None else [each.strip() for each in arguments.releases.split(",")]
        return RELEASES, list_releases(arguments.package, good, bad, None if given is None else lambda _: given)
    if bad is not None and Path(good).is_file() and Path(bad).is_file():
        return LOCK_FILES, list_lock_lines(Path(good), Path(bad))
    return COMMITS, list_commits(root, good, bad or "HEAD")


def _make_compare(
    kind: str,
    candidates: "tuple[BisectCandidate, ...]",
    arguments: BisectArguments,
    folder: Path,
    make_options: "Callable[[bool], CheckOptions]",
) -> "Compare":
    from perfkit.check.bisect import candidate_sides as sides

    if kind == COMMITS:
        return sides.compare_commits(candidates, folder, make_options)
    if kind == RELEASES:
        return sides.compare_environments(sides.name_release(candidates), folder, make_options)
    assert arguments.good is not None
    assert arguments.bad is not None
    name = sides.name_locks(candidates, Path(arguments.good), Path(arguments.bad))
    return sides.compare_environments(name, folder, make_options)
