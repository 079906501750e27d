"""The packages of the current environment, and which of them depend on others."""

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

import msgspec

# What comes with an interpreter and changes no training, and perfkit itself, which both sides get from one process.
TOOLS = frozenset({"perfkit", "pip", "setuptools", "wheel", "uv"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Setuptools adds the folder of its own copies to the import path when it is imported.
_BUNDLED = "_vendor"
_OF_EXTRA = re.compile(r";.*\bextra\s*==")


class Package(NamedTuple):
    """An installed package. `requires` are normalized names, without extras'. `is_local`: from a folder of this
    machine, which no index has."""

    name: str
    version: str
    requires: frozenset[str]
    is_local: bool


class _Origin(msgspec.Struct):
    dir_info: dict[str, object] | None = None


def list_installed(found: Iterable[Distribution] | None = None) -> dict[str, Package]:
    """The installed packages by normalized name; the first in the import path counts, as for imports."""
    packages: dict[str, Package] = {}
    if found is None:
        found = distributions(path=[folder for folder in sys.path if Path(folder).name != _BUNDLED])
    for each in found:
        name = normalize_name(each.name or "")
        if name and name not in packages:
            required = frozenset(
                read_requirement_name(text) for text in each.requires or () if not _OF_EXTRA.search(text)
            )
            packages[name] = Package(name, each.version, required, _is_local(each))
    return packages


def list_versions() -> dict[str, str]:
    """The versions of the installed packages but `TOOLS`, by normalized name."""
    return {name: package.version for name, package in list_installed().items() if name not in TOOLS}


def print_versions() -> None:
    """Print `list_versions` as JSON, for the process that asks."""
    sys.stdout.write(msgspec.json.encode(list_versions()).decode() + "\n")


def list_needs() -> tuple[str, ...]:
    """The packages that perfkit needs to measure."""
    own = list_installed().get("perfkit")
    return ("torch", *sorted(own.requires if own is not None else ()))


def read_requirement_name(text: str) -> str:
    """The normalized name of a requirement's package (PEP 508); "" if it begins with none."""
    found = _NAME.match(text.strip())
    return normalize_name(found[0]) if found else ""


def normalize_name(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_required(packages: Mapping[str, Package], names: Iterable[str]) -> frozenset[str]:
    """All packages that these require, directly or not, without themselves."""
    return _follow({name: package.requires for name, package in packages.items()}, names)


def find_dependents(packages: Mapping[str, Package], names: Iterable[str]) -> frozenset[str]:
    """All packages that require one of these, directly or not, without themselves."""
    dependents: dict[str, set[str]] = {}
    for name, package in packages.items():
        for required in package.requires:
            dependents.setdefault(required, set()).add(name)
    return _follow(dependents, names)


def _follow(links: Mapping[str, Iterable[str]], names: Iterable[str]) -> frozenset[str]:
    start = set(names)
    seen, waiting = set(start), list(start)
    while waiting:
        for name in links.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return frozenset(seen - start)


def _is_local(package: Distribution) -> bool:
    origin = package.read_text("direct_url.json")
    return origin is not None and msgspec.json.decode(origin, type=_Origin).dir_info is not None
