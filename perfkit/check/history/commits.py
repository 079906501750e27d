"""Commits between two runs, as the git repository at hand tells them."""

from pathlib import Path

from perfkit.check.history.result import Commit, CommitRange
from perfkit.core.git import run_git

_SHOWN = 200


def read_commit_range(repository: Path | None, before: str, after: str) -> CommitRange:
    """The commits after `before` up to `after`. Revisions are as recorded; "" where a run recorded none."""
    between = CommitRange(before=before, after=after)
    if not before or not after:
        return _make_unknown_range(between, "a run next to the change recorded no revision")
    if before == after:
        return CommitRange(
            before=before,
            after=after,
            count=0,
            reason="both sides have the same revision: the machine or uncommitted changes caused it",
        )
    if repository is None:
        return _make_unknown_range(between, "no git repository available")
    for revision in (before, after):
        if not run_git(repository, "cat-file", "-e", f"{revision}^{{commit}}").ok:
            return _make_unknown_range(between, f"{revision} is not in the repository {repository}")
    if not run_git(repository, "merge-base", "--is-ancestor", before, after).ok:
        return _make_unknown_range(
            between, f"{before} is not an ancestor of {after}: the runs are from different branches or out of order"
        )
    listed = run_git(repository, "log", "--format=%h%x00%s", "--abbrev=12", f"{before}..{after}")
    if not listed.ok:
        return _make_unknown_range(between, listed.message)
    lines = [line.partition("\0") for line in listed.text.splitlines()]
    commits = tuple(Commit(revision=revision, title=title) for revision, _, title in lines[:_SHOWN])
    return CommitRange(before=before, after=after, commits=commits, count=len(lines))


def _make_unknown_range(between: CommitRange, reason: str) -> CommitRange:
    return CommitRange(before=between.before, after=between.after, reason=reason)
