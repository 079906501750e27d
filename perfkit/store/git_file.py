"""Reads a file at another git revision, without touching the working tree."""

from pathlib import Path

from perfkit.core.errors import UsageError
from perfkit.core.git import run_git
from perfkit.store.baseline import BASELINE_FILE, Baseline, decode_baseline


class NoRevisionError(UsageError):
    """No such git revision here, or no repository."""

    id = "usage.no_revision"


def read_baseline_at(revision: str, path: Path) -> Baseline:
    """Read the baseline at `path` of a branch, tag or commit.

    Raises `UsageError` with advice if that is impossible, `RunFormatError` for another file.
    """
    return decode_baseline(f"{revision}:{path}", read_file_at(revision, path))


def read_file_at(revision: str, path: Path) -> bytes:
    """Read the contents of `path` (absolute, or relative to the current folder) at a revision."""
    if not revision or revision.startswith("-") or ":" in revision:
        raise NoRevisionError(
            f"{revision!r} is not a git revision: expected a branch, tag or commit, such as origin/main"
        )
    folder, inner = _find_existing_folder(path.absolute())
    _require_repository(folder)
    known = run_git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not known.ok:
        raise NoRevisionError(
            f"git has no revision {revision!r} in {folder}; fetch it first (`git fetch origin "
            f"{revision.removeprefix('origin/')}`; in CI, also check out more than the last commit)"
        )
    name = f"{known.text}:./{inner.as_posix()}"
    if run_git(folder, "cat-file", "-t", name).text != "blob":
        raise UsageError(
            f"{revision} has no file {path}: write it with `perfkit check --update` and commit it (default name: "
            f"{BASELINE_FILE})"
        )
    return run_git(folder, "cat-file", "blob", name).output


def _find_existing_folder(path: Path) -> tuple[Path, Path]:
    """The nearest existing folder around a file, and the file's path from it."""
    folder = next(parent for parent in path.parents if parent.is_dir())
    return folder, path.relative_to(folder)


def _require_repository(folder: Path) -> None:
    answer = run_git(folder, "rev-parse", "--is-inside-work-tree")
    if answer.text == "true":
        return
    # Git's own message for any other reason, such as another user's folder.
    detail = "" if answer.ok or "not a git repository" in answer.message else f" ({answer.message})"
    raise NoRevisionError(
        f"{folder} is not in a git working tree{detail}, which a baseline of a revision needs; give a file or a run"
    )
