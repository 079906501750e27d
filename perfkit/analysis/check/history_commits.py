"""What was committed between two runs, as the git repository at hand tells it."""

import subprocess
from pathlib import Path

from perfkit.analysis.check.history_result import Commit, CommitRange

_SHOWN = 200
_SECONDS = 30


def commit_range(repository: Path | None, before: str, after: str) -> CommitRange:
    """The commits after `before` up to `after`. Revisions are as recorded; "" where a run recorded none."""
    found = CommitRange(before=before, after=after)
    if not before or not after:
        return _unknown(found, "a run beside the change recorded no revision")
    if before == after:
        return CommitRange(
            before=before,
            after=after,
            count=0,
            reason="both sides are of the same revision: not a commit but the machine or uncommitted changes made it",
        )
    if repository is None:
        return _unknown(found, "no git repository is at hand")
    for revision in (before, after):
        if git(repository, "cat-file", "-e", f"{revision}^{{commit}}") is None:
            return _unknown(found, f"{revision} is not in the repository {repository}")
    if git(repository, "merge-base", "--is-ancestor", before, after) is None:
        return _unknown(
            found, f"{before} is no ancestor of {after}: the runs are of different branches or out of order"
        )
    listed = git(repository, "log", "--format=%h%x00%s", "--abbrev=12", f"{before}..{after}")
    if listed is None:
        return _unknown(found, "git log failed")
    lines = [line.partition("\0") for line in listed.splitlines()]
    commits = tuple(Commit(revision=revision, title=title) for revision, _, title in lines[:_SHOWN])
    return CommitRange(before=before, after=after, commits=commits, count=len(lines))


def repository_of(folder: Path) -> Path | None:
    """The working tree that a folder lies in."""
    found = git(folder if folder.is_dir() else folder.parent, "rev-parse", "--show-toplevel")
    return Path(found.strip()) if found and found.strip() else None


def git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails or is not there. Nothing of the repository is run or changed."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), "--no-pager", *arguments]
    try:
        answer = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def _unknown(found: CommitRange, reason: str) -> CommitRange:
    return CommitRange(before=found.before, after=found.after, reason=reason)
