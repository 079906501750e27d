"""What to search: commits between two revisions, releases of a package, or lines that differ between lock files."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from perfkit.check.bisect.result import BisectCandidate
from perfkit.check.environments.installed_packages import read_requirement_name
from perfkit.core.errors import UsageError
from perfkit.core.git import find_repository, run_git

_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_NUMBERS = re.compile(r"\d+")


def list_commits(folder: Path, good: str, bad: str) -> tuple[BisectCandidate, ...]:
    """The commits from `good` to `bad` along first parents, both included; each by its hash and subject.

    Raises:
        UsageError: no such revision, or `good` is no ancestor of `bad`.
    """
    top = find_repository(folder)
    for ref in (good, bad):
        if not run_git(top, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").ok:
            raise UsageError(f"no revision {ref!r} in {top}", id="usage.no_revision")
    if not run_git(top, "merge-base", "--is-ancestor", good, bad).ok:
        raise UsageError(f"{good} is no ancestor of {bad}: name an earlier commit of the same line with --good")
    listed = run_git(top, "log", "--first-parent", "--reverse", "--format=%H%x09%s", f"{good}..{bad}")
    first = run_git(top, "log", "-1", "--format=%H%x09%s", good)
    lines = [line for answer in (first, listed) for line in answer.text.splitlines()]
    return tuple(
        BisectCandidate(name=name, detail=detail) for name, _, detail in (line.partition("\t") for line in lines)
    )


def list_releases(
    package: str, good: str, bad: str, ask: Callable[[str], Sequence[str]] | None = None
) -> tuple[BisectCandidate, ...]:
    """The package's releases from `good` to `bad`, both included, as requirements.

    `2.11` means its first release, such as 2.11.0.

    Raises:
        UsageError: the index has no such release, or they are in the wrong order.
    """
    versions = list((ask or _ask_index)(package))
    places = []
    for version in (good, bad):
        found = next((i for i, each in enumerate(versions) if _is_same_release(each, version)), None)
        if found is None:
            raise UsageError(f"{package} has no release {version}; the index has {', '.join(versions) or 'none'}")
        places.append(found)
    if places[0] >= places[1]:
        raise UsageError(f"{good} is not before {bad}: name the earlier release with --good")
    return tuple(BisectCandidate(name=f"{package}=={each}") for each in versions[places[0] : places[1] + 1])


def list_lock_lines(good: Path, bad: Path) -> tuple[BisectCandidate, ...]:
    """The lines of two lock files that differ, by package; the first candidate is the good file as it is.

    Candidate number n has the first n changed packages of the bad file; each is named by its package.

    Raises:
        UsageError: the files have the same packages.
    """
    old, new = read_lock(good), read_lock(bad)
    changed = [name for name in sorted(old | new) if old.get(name) != new.get(name)]
    if not changed:
        raise UsageError(f"{good} and {bad} have the same packages: nothing to search")
    return (
        BisectCandidate(name=str(good)),
        *(
            BisectCandidate(name=name, detail=f"{old.get(name, 'absent')} -> {new.get(name, 'absent')}")
            for name in changed
        ),
    )


def read_lock(path: Path) -> dict[str, str]:
    """The lines of a lock file in the format of requirements, by package; comments, hashes and options are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", id="usage.no_file") from None
    packages = {}
    for line in lines:
        text = line.partition(" #")[0].partition(" --hash")[0].rstrip("\\ ").strip()
        if text and not text.startswith(("#", "-")):
            packages[read_requirement_name(text)] = text
    return packages


def mix_locks(good: Path, bad: Path, names: Sequence[str]) -> tuple[str, ...]:
    """The packages of the good file, with those of these names as in the bad one."""
    old, new = read_lock(good), read_lock(bad)
    mixed = {**old, **{name: new.get(name, "") for name in names}}
    return tuple(text for text in mixed.values() if text)


def _is_same_release(version: str, wanted: str) -> bool:
    """True if they are equal up to trailing zeros and the local part: 2.11 is 2.11.0."""
    return _strip_zeros(version) == _strip_zeros(wanted)


def _strip_zeros(version: str) -> str:
    public = version.partition("+")[0]
    parts = public.split(".")
    while len(parts) > 1 and parts[-1] == "0":
        parts.pop()
    return ".".join(parts)


def _ask_index(package: str) -> list[str]:
    """The versions that pip finds for this interpreter, the oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _AVAILABLE.search(done.stdout)
    if done.returncode or found is None:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(f"pip lists no releases of {package}: {last}. Name some with --releases", id="usage.no_file")
    return list(reversed([each.strip() for each in found[1].split(",")]))
