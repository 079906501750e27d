"""A file as it was at another revision of a git repository, without touching the working tree."""

import subprocess
from pathlib import Path

from perfkit.errors import UsageError
from perfkit.store.baseline import BASELINE_FILE, Baseline, decode_baseline

_TIMEOUT_S = 60.0


def read_baseline_of(revision: str, path: Path) -> Baseline:
    """The baseline that `path` held at a branch, tag or commit.

    Raises `UsageError` where that cannot be told, with what to do, and `RunFormatError` for a file that is none.
    """
    return decode_baseline(f"{revision}:{path}", file_at(revision, path))


def file_at(revision: str, path: Path) -> bytes:
    """What `path` (relative to the current folder, or absolute) held at a revision."""
    if not revision or revision.startswith("-") or ":" in revision:
        raise UsageError(f"{revision!r} is no revision of git: expected a branch, tag or commit, such as origin/main")
    folder, inner = _existing_folder(path.absolute())
    _require_repository(folder)
    known = _git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if known.returncode:
        raise UsageError(
            f"git knows no revision {revision!r} in {folder}: fetch it first (`git fetch origin "
            f"{revision.removeprefix('origin/')}`; in CI also check out more than the last commit)"
        )
    name = f"{known.stdout.decode().strip()}:./{inner.as_posix()}"
    kind = _git(folder, "cat-file", "-t", name)
    if kind.returncode or kind.stdout.strip() != b"blob":
        raise UsageError(
            f"{revision} has no file {path}: write one there with `perfkit check --update` and commit it "
            f"({BASELINE_FILE} where no other name is given)"
        )
    return _git(folder, "cat-file", "blob", name).stdout


def _existing_folder(path: Path) -> tuple[Path, Path]:
    """The nearest folder around a file that is there now, and the file as seen from it."""
    folder = next(parent for parent in path.parents if parent.is_dir())
    return folder, path.relative_to(folder)


def _require_repository(folder: Path) -> None:
    found = _git(folder, "rev-parse", "--is-inside-work-tree")
    if found.returncode == 0 and found.stdout.strip() == b"true":
        return
    said = found.stderr.decode(errors="replace").strip().splitlines()
    raise UsageError(
        f"{folder} is not in a working tree of git{f' ({said[0]})' if said else ''}: "
        "a baseline of a revision needs one; expected a file or a run instead"
    )


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise UsageError("a baseline of a revision needs git, which is not installed here") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {arguments[0]} did not answer within {_TIMEOUT_S:.0f} s in {folder}") from None
