"""Runs Git in the repository around a folder."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perfkit.core.errors import UsageError

ANSWER_S = 60.0  # longer than any question takes; a checkout says how long it may take
_REVISION_S = 10.0  # every rank runs it at start, and can do without

# What points git at another repository within a hook (git rev-parse --local-env-vars).
_LOCAL = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


class GitMissingError(UsageError):
    """Git is not installed."""

    id = "usage.no_git"


@dataclass(frozen=True)
class GitAnswer:
    """The result of git: its exit code (None after a timeout), output and complaints."""

    code: int | None
    output: bytes
    complaint: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def text(self) -> str:
        """The output without surrounding white space."""
        return self.output.decode(errors="replace").strip()

    @property
    def message(self) -> str:
        """The complaint in one line."""
        return " ".join(self.complaint.split()) or f"git ended with exit code {self.code}"


def run_git(folder: Path, *arguments: str, within_s: float | None = ANSWER_S) -> GitAnswer:
    """Run git in `folder`. Messages are in English; git neither prompts nor pages.

    Raises `GitMissingError` where git is not installed. A failure or timeout is a `GitAnswer`.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _LOCAL}
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), "--no-pager", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=within_s,
            env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
    except FileNotFoundError:
        raise GitMissingError("git is not installed, and reading another revision needs it") from None
    except subprocess.TimeoutExpired:
        return GitAnswer(None, b"", f"git {arguments[0]} timed out after {within_s:g} s in {folder}")
    return GitAnswer(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def find_repository(folder: Path) -> Path:
    """Find the top of the working tree around a folder; raise a `UsageError` if there is none."""
    answer = run_git(folder, "rev-parse", "--show-toplevel")
    if not answer.ok:
        raise UsageError(f"{folder.resolve()}: not in a git repository ({answer.message})")
    return Path(answer.text)


def find_optional_repository(folder: Path) -> Path | None:
    """Find the top of the working tree; None outside of one, or without git."""
    try:
        return find_repository(folder)
    except UsageError:
        return None


def read_revision(folder: Path) -> str | None:
    """Read the short hash of the checked-out commit, with `-dirty` for uncommitted changes; None outside of git."""
    try:
        answer = run_git(folder, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*", within_s=_REVISION_S)
    except GitMissingError:
        return None
    return answer.text or None
