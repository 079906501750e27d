"""Runs `perfkit bisect`: what to search, and how to compare two candidates."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.store.summary import BISECT_FILE
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_foreign

if TYPE_CHECKING:
    from perfkit.check.bisect.find_change import Compare
    from perfkit.check.bisect.result import BisectCandidate, Bisection, BisectOptions
    from perfkit.check.check_options import CheckOptions

COMMITS, RELEASES, LOCK_FILES = "commits", "releases", "lock files"


def run_search(
    options: "BisectOptions", *, out: Path | None, resume: Path | None, quiet: bool
) -> "tuple[Path, Bisection]":
    """Search, and return the folder with the result; each state is written there, so that Ctrl-C loses one check.

    A search that goes on in `resume` has the options that it began with.
    """
    from perfkit.check.bisect.find_change import find_change, start_bisection
    from perfkit.check.bisect.resumed_options import resume_options
    from perfkit.check.check_change import load_check_config, make_check_options
    from perfkit_cli.modes.check_modes import parse_threshold_option
    from perfkit_cli.output.check_progress import show_check_progress
    from perfkit_cli.output.console import make_console

    begun = None if resume is None else _read_begun(resume, out)
    if begun is not None:
        options = resume_options(begun.options, options)
    config = load_check_config(
        workload=options.workload,
        technique=options.technique,
        thresholds=dict(map(parse_threshold_option, options.thresholds)),
        device=options.device,
        threads=options.threads,
        budget=options.budget,
        fail_on=None,
        prefix="--",
    )
    if resume is None or begun is None:
        folder = out or Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-bisect"
        refuse_foreign(folder, BISECT_FILE, "perfkit bisect")
        kind, candidates = list_candidates(options, Path(config.root))
        bisection = start_bisection(kind, candidates, get_command_line(), options)
    else:
        folder, bisection = resume, replace(begun, options=options)
        # Commits and releases are named by what the search has; lock files are read again.
        if bisection.kind == LOCK_FILES and list_candidates(options, Path(config.root))[1] != bisection.candidates:
            raise UsageError(
                f"the lock files of {folder} have changed since: start a new search without --resume",
                id="usage.conflict",
            )
    with show_check_progress(make_console(stderr=True, quiet=quiet)) as progress:

        def make_options(timed: bool) -> "CheckOptions":
            return make_check_options(config, command=get_command_line(), timed=timed, progress=progress)

        found = find_change(
            bisection,
            config,
            _make_compare(bisection, folder, make_options),
            quantity=options.quantity,
            timed=not options.exact,
            save=lambda state: write_json(folder / BISECT_FILE, state),
        )
    return folder, found


def _read_begun(folder: Path, out: Path | None) -> "Bisection":
    from perfkit.check.bisect.result import read_bisection

    if out is not None:
        raise UsageError("--resume goes on in its own folder: omit --out", id="usage.conflict")
    return read_bisection(folder)


def list_candidates(options: "BisectOptions", root: Path) -> "tuple[str, tuple[BisectCandidate, ...]]":
    """What is searched: releases with `--package`, lock files if both ends are files, else commits."""
    from perfkit.check.bisect.candidates import list_commits, list_lock_lines, list_releases

    good, bad = options.good, options.bad
    if good is None:
        raise UsageError(
            "--good is needed: a commit, a release or a lock file that was fast", id="usage.missing_option"
        )
    if options.package is not None:
        if bad is None:
            raise UsageError("--package needs --bad, a release that is slow", id="usage.missing_option")
        given = None if options.releases is None else [each.strip() for each in options.releases.split(",")]
        return RELEASES, list_releases(options.package, good, bad, None if given is None else lambda _: given)
    if bad is not None and Path(good).is_file() and Path(bad).is_file():
        return LOCK_FILES, list_lock_lines(Path(good), Path(bad))
    return COMMITS, list_commits(root, good, bad or "HEAD")


def _make_compare(bisection: "Bisection", folder: Path, make_options: "Callable[[bool], CheckOptions]") -> "Compare":
    from perfkit.check.bisect import candidate_sides as sides

    candidates, options = bisection.candidates, bisection.options
    if bisection.kind == COMMITS:
        return sides.compare_commits(candidates, folder, make_options)
    if bisection.kind == RELEASES:
        return sides.compare_environments(sides.name_release(candidates), folder, make_options)
    assert options.good is not None
    assert options.bad is not None
    name = sides.name_locks(candidates, Path(options.good), Path(options.bad))
    return sides.compare_environments(name, folder, make_options)
