"""Dependencies of perfkit beside torch, read from pyproject.toml.

    python -m benchmarks.gpu.packages > requirements.txt

prints them as requirements, for a machine without internet (`README.md` in this folder).
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("torch", "images")  # what measuring takes, and drawing stills
TESTS = ("pytest>=8",)  # further needs of `tests/gpu`


def read_requirements() -> dict[str, str]:
    """Name -> requirement of each of perfkit's dependencies, those of the extras that a GPU run takes included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra])
    return {_parse_name(requirement): requirement for requirement in (*project["dependencies"], *extras)}


def read_versions() -> dict[str, str | None]:
    """Name -> installed version of each dependency and of the packages of the tests; None where it is missing."""
    return {name: _find_version(name) for name in (*read_requirements(), *map(_parse_name, TESTS))}


def find_missing(*more: str) -> tuple[str, ...]:
    """Dependencies of perfkit, and those of `more`, that are not installed."""
    return tuple(name for name in (*read_requirements(), *more) if _find_version(name) is None)


def _parse_name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return name[0]


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    carried = [requirement for name, requirement in read_requirements().items() if name != "torch"]
    print("\n".join((*carried, *TESTS)))
