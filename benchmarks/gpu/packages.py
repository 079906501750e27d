"""What perfkit needs beside torch, read from pyproject.toml.

    python -m benchmarks.gpu.packages > requirements.txt

prints it as requirements, for a machine without internet (`README.md` in this folder).
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("pytest>=8",)  # what `tests/gpu` needs besides


def requirements() -> dict[str, str]:
    """Name -> requirement of each of perfkit's dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {_name(requirement): requirement for requirement in project["dependencies"]}


def installed() -> dict[str, str | None]:
    """Name -> installed version of each of them and of what the tests need; None where it is not there."""
    return {name: _version(name) for name in (*requirements(), *map(_name, TESTS))}


def missing(*more: str) -> tuple[str, ...]:
    """Dependencies of perfkit, and those of `more`, that are not installed."""
    return tuple(name for name in (*requirements(), *more) if _version(name) is None)


def _name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return name[0]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    carried = [requirement for name, requirement in requirements().items() if name != "torch"]
    print("\n".join((*carried, *TESTS)))
