"""Checks out another revision into a temporary folder while it is measured."""

import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfkit.core.errors import PerfkitError, UsageError, raise_terminated
from perfkit.core.git import find_optional_repository, find_repository, run_git

# The folder's name has the creating process, so leftovers of killed processes can be removed.
_PREFIX = "perfkit-worktree-"
_OWNED = re.compile(_PREFIX + r"(\d+)-")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A revision's code in a folder.

    Attributes:
        path: the counterpart of the requesting folder.
        tree: the top folder of the code; `path` is this or a folder in it.
        hash: the full hash of its commit; "" outside of git.
        label: its name for users, `origin/main (1a2b3c4)`.
        notes: missing parts of the checkout.
    """

    path: Path
    tree: Path
    hash: str
    label: str
    notes: tuple[str, ...] = ()


@contextmanager
def open_worktree(repository: Path, ref: str) -> Iterator[Revision]:
    """Check out `ref` of the repository around the folder `repository` into a temporary folder while the body runs.

    The folder is always removed; SIGTERM raises a KeyboardInterrupt meanwhile. Leftovers of killed processes are
    removed first.

    Raises:
        UsageError: no repository, no such revision, or the folder is not part of that revision.
    """
    top = find_repository(repository)
    commit = _resolve_commit(top, ref)
    _remove_left_over(top)
    inside = repository.resolve().relative_to(top)
    with _raise_on_sigterm():
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
        tree = folder / "code"
        try:
            _check_out(top, tree, commit)
            if not (tree / inside).is_dir():
                raise UsageError(f"{ref} ({commit[:7]}) has no folder {inside}: run from a folder that both sides have")
            label = f"{ref} ({commit[:7]})"
            yield Revision(path=tree / inside, tree=tree, hash=commit, label=label, notes=_list_missing(tree))
        finally:
            _remove_worktree(top, tree)
            folder.rmdir()


def read_working_tree(folder: Path) -> Revision:
    """The code in `folder`, including uncommitted changes; also outside of git."""
    folder = folder.resolve()
    top = find_optional_repository(folder)
    if top is None:
        return Revision(path=folder, tree=folder, hash="", label="working tree")
    head = run_git(top, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head.ok:
        return Revision(path=folder, tree=top, hash="", label="working tree (no commit yet)")
    changed = ", with uncommitted changes" if run_git(top, "status", "--porcelain").text else ""
    commit = head.text
    return Revision(path=folder, tree=top, hash=commit, label=f"working tree ({commit[:7]}{changed})")


def _resolve_commit(top: Path, ref: str) -> str:
    answer = run_git(top, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if answer.ok:
        return answer.text
    shallow = run_git(top, "rev-parse", "--is-shallow-repository").text == "true"
    remote, _, branch = ref.rpartition("/")
    fetch = f"git fetch {remote or 'origin'} {branch}" + (f":refs/remotes/{ref}" if remote else "")
    hint = "; this clone is shallow, as in most CI: it contains only the checked-out revision" if shallow else ""
    names = run_git(
        top, "for-each-ref", "--count=10", "--sort=-committerdate", "--format=%(refname:short)"
    ).text.split()
    there = f"; available: {', '.join(names)}" if names else ""
    raise UsageError(f"no revision {ref!r} in {top}{hint}; get it with `{fetch}`{there}")


def _check_out(top: Path, tree: Path, commit: str) -> None:
    # Without the repository's hooks, which may prompt, download or fail.
    added = run_git(
        top, "-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", str(tree), commit, within_s=None
    )
    if not added.ok:
        lfs = "; Git LFS files must be present: `git lfs fetch`" if "lfs" in added.complaint.lower() else ""
        raise PerfkitError(f"cannot check out revision {commit[:7]}: {added.message}{lfs}")


def _remove_worktree(top: Path, tree: Path) -> None:
    run_git(top, "worktree", "remove", "--force", str(tree))
    if tree.exists():  # not registered (yet), or git cannot remove it, as with submodules in old git versions
        shutil.rmtree(tree, ignore_errors=True)
        run_git(top, "worktree", "prune")


def _remove_left_over(top: Path) -> None:
    """Remove leftovers of dead processes from this repository."""
    listed = run_git(top, "worktree", "list", "--porcelain").text
    for line in listed.splitlines():
        kind, _, path = line.partition(" ")
        owner = _OWNED.search(path) if kind == "worktree" else None
        if owner is None or _is_alive(int(owner[1])):
            continue
        tree = Path(path)
        _remove_worktree(top, tree)
        if tree.parent.is_dir() and not any(tree.parent.iterdir()):
            tree.parent.rmdir()
        run_git(top, "worktree", "prune")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _list_missing(tree: Path) -> tuple[str, ...]:
    """Parts that a fresh checkout lacks, which explain failures only there."""
    notes = []
    if (tree / ".gitmodules").is_file():
        notes.append("it has submodules, which are empty in a temporary checkout: install their code instead")
    pointers = _find_lfs_pointers(tree)
    if pointers:
        notes.append(f"Git LFS files are missing ({', '.join(pointers)}): `git lfs install && git lfs fetch`")
    return tuple(notes)


def _find_lfs_pointers(tree: Path) -> list[str]:
    """Some files that are still LFS pointers."""
    names = run_git(tree, "grep", "-l", _LFS_POINTER.decode(), "--", ".", within_s=None).text.splitlines()
    return [name for name in names if (tree / name).read_bytes().startswith(_LFS_POINTER)][:3]


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Make SIGTERM raise `Terminated`, a KeyboardInterrupt, in the body. Only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
