"""Creates a virtual environment with other packages than the current one has, by uv, and keeps it in the cache."""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perfkit.check.environments.installed_packages import (
    TOOLS,
    Package,
    find_dependents,
    find_required,
    list_installed,
    list_needs,
    read_requirement_name,
)
from perfkit.check.environments.named_environment import NamedEnvironment
from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import PerfkitError, UsageError

_FOLDER = "environments"
_INPUT, _PINS = "requirements.in", "requirements.txt"
_INDEX_VARIABLES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_PIP_OPTIONS = {"index-url": "--default-index", "extra-index-url": "--index", "find-links": "--find-links"}
_LAST_LINES = 15


def create_environment(named: NamedEnvironment, report: Callable[[str], None]) -> Path:
    """The interpreter of an environment with the named packages; created once, then taken from the cache.

    Of requirements, all other packages are those of the current environment in the same versions, except where the
    named ones need another, or are needed by another.

    Raises:
        UsageError: uv is not installed.
        PerfkitError: the packages cannot be resolved or installed.
    """
    installed = list_installed()
    if named.requirements:
        wanted = list_wanted(named.requirements, installed)
        pins = tuple(f"{each.name}=={each.version}" for each in installed.values())
    else:
        own = named.packages if named.file is None else (f"-r {named.file}",)
        wanted, pins = (*own, *list_needs()), ()
    options = _list_index_options()
    indexes = (*options, *(os.environ.get(name, "") for name in _INDEX_VARIABLES))  # where else a version may differ
    text = "\n".join((platform.python_version(), sys.executable, *wanted, "", *pins, "", *indexes))
    home = get_cache_folder() / _FOLDER / hashlib.sha256(text.encode()).hexdigest()[:16]
    interpreter = home / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not home.is_dir():
        building = home.with_name(f"{home.name}-{os.getpid()}")
        try:
            _build(building, wanted, pins, options, report)
            building.rename(home)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return interpreter


def list_wanted(requirements: Sequence[str], installed: Mapping[str, Package]) -> tuple[str, ...]:
    """What to ask uv for: the requirements, and each other package of the environment.

    Packages that depend on the named ones may change; what the named ones need comes with them; the rest is pinned.
    """
    named = set(map(read_requirement_name, requirements))
    required, dependents = find_required(installed, named), find_dependents(installed, named)
    others = (each for name, each in installed.items() if name not in named | required | TOOLS and not each.is_local)
    return (
        *requirements,
        *(each.name if each.name in dependents else f"{each.name}=={each.version}" for each in others),
    )


def _build(
    folder: Path, wanted: Sequence[str], pins: Sequence[str], options: Sequence[str], report: Callable[[str], None]
) -> None:
    folder.mkdir(parents=True)
    (folder / _INPUT).write_text("\n".join(wanted) + "\n", encoding="utf-8")
    (folder / _PINS).write_text("\n".join(pins) + "\n", encoding="utf-8")  # uv prefers the versions that stand there
    uv = _find_uv()
    report("resolving packages")
    strategy = ("--index-strategy", "unsafe-best-match")  # as pip: the best version of all indexes
    compiled = ("pip", "compile", "--quiet", "--no-header", "--python", sys.executable, *strategy, *options)
    _run_uv([*uv, *compiled, "--output-file", _PINS, _INPUT], folder)
    report("creating the environment")
    _run_uv([*uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, "venv"], folder)
    report("installing packages")
    _run_uv(
        [*uv, "pip", "install", "--quiet", "--python", "venv", "--no-deps", *strategy, *options, "-r", _PINS], folder
    )


def _find_uv() -> list[str]:
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    if found := shutil.which("uv"):
        return [found]
    raise UsageError(
        "an environment with other packages is created by uv, which is not installed: pip install uv; or name an "
        "existing environment's folder",
        id="usage.no_uv",
    )


def _list_index_options() -> list[str]:
    """pip's indexes for uv, which does not read pip's configuration; its own variables take precedence."""
    if any(name in os.environ for name in _INDEX_VARIABLES) or importlib.util.find_spec("pip") is None:
        return []
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    options: dict[tuple[str, str], None] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        option = _PIP_OPTIONS.get(key.rsplit(".", 1)[-1])
        if option is not None:
            options.update(dict.fromkeys((option, _locate(each)) for each in value.strip("'\"").split()))
    return [part for pair in options for part in pair]


def _locate(place: str) -> str:
    """A folder or file by its whole path, since uv runs in another folder; a URL as it is."""
    return str(Path(place).resolve()) if Path(place).exists() else place


def _run_uv(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        raise PerfkitError(f"uv could not create the environment:\n{last}", id="check.no_environment")
