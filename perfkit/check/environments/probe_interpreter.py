"""Asks another interpreter whether it can measure, before anything is run there."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import perfkit
from perfkit.check.environments.installed_packages import list_needs
from perfkit.core.errors import UsageError

_WITHIN_S = 300.0  # the first import of torch on a cold disk
_OLDEST = (3, 11)
_ASK = (
    "import sys; print(*sys.version_info[:2]); import perfkit.measure.rank.worker; "
    "from perfkit.check.environments.installed_packages import print_versions; print_versions()"
)


@contextmanager
def expose_perfkit() -> Iterator[Path]:
    """A folder that has this perfkit and no other package, for the import path of another interpreter."""
    with TemporaryDirectory(prefix="perfkit-package-") as name:
        folder = Path(name)
        (folder / "perfkit").symlink_to(Path(perfkit.__file__).resolve().parent, target_is_directory=True)
        yield folder


def probe_interpreter(interpreter: Path, import_path: Sequence[Path]) -> dict[str, str]:
    """The versions of the packages there, by normalized name.

    Raises:
        UsageError: it does not start, is too old, or lacks a package that perfkit needs.
    """
    folders = os.pathsep.join(map(str, import_path))
    try:
        done = subprocess.run(
            [str(interpreter), "-c", _ASK],
            env={**os.environ, "PYTHONPATH": folders},
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{interpreter} does not answer: {error}", id="check.no_environment") from None
    lines = done.stdout.split("\n")
    version = tuple(map(int, lines[0].split())) if lines[0] else ()
    if version and version < _OLDEST:
        raise UsageError(
            f"{interpreter} is Python {'.'.join(map(str, version))}; expected {'.'.join(map(str, _OLDEST))} or newer",
            id="check.no_environment",
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UsageError(
            f"{interpreter} cannot measure: {last}. Install what perfkit needs there: "
            f"{interpreter} -m pip install {' '.join(list_needs())}",
            id="check.no_environment",
        )
    return msgspec.json.decode(lines[1], type=dict[str, str])
