"""Which functions of users may run because a suite names them: those that this user has named in a command here.

A suite's folder can come from anybody, and its workload is a function that training calls. What the user names,
`perfkit bench -w train.py:build`, is remembered in the user's cache by file and parameters; a suite that names anything
else runs only after `trust_workload`.
"""

import contextlib
import hashlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.files import write_bytes
from perfkit.core.spec import WorkloadSpec
from perfkit.workloads.user_workload import find_defined_names


def remember_workload(spec: WorkloadSpec) -> None:
    """Note that the user has named this function; where nothing can be written, its suites will ask for trust."""
    with contextlib.suppress(PerfkitError):
        write_bytes(_get_note(spec), spec.label.encode())


def require_named_workload(spec: WorkloadSpec, folder: Path) -> None:
    """Raise a `UsageError` unless the user has named this function here; `folder` is the suite that names it."""
    if not _get_note(spec).exists():
        raise UsageError(
            f"{folder} names the workload {spec.label}, which you have not named on this machine: to run its code, "
            "look at it, and add --trust",
            id="usage.untrusted_workload",
        )


def trust_workload(spec: WorkloadSpec, folder: Path) -> None:
    """Remember the workload that the suite in `folder` names, if a file below the current folder defines it.

    Anything else, such as a function of a library, is a `UsageError`: nothing is imported to find out.
    """
    source, _, function = spec.name.rpartition(":")
    file = Path(source) if source.endswith(".py") else _find_module_file(source)
    if file is None or not file.resolve().is_relative_to(Path.cwd()) or not _defines_function(file, function):
        raise UsageError(
            f"{folder} names the workload {spec.label}, which no file below {Path.cwd()} defines; --trust runs only "
            "what the current folder holds. To run it nevertheless, name it once: perfkit plan --workload NAME",
            id="usage.untrusted_workload",
        )
    remember_workload(spec)


def _get_note(spec: WorkloadSpec) -> Path:
    """The file that stands for a function of a file, with parameters: a relative name means another file elsewhere."""
    source, _, function = spec.name.rpartition(":")
    origin = str(Path(source).resolve()) if source.endswith(".py") else f"{_find_package(source)} {source}"
    key = "\0".join([origin, function, spec.label])
    return get_cache_folder() / "workloads" / hashlib.sha256(key.encode()).hexdigest()[:32]


def _find_package(module: str) -> str | None:
    """Where Python finds the outermost package of a module, without importing it."""
    spec = PathFinder.find_spec(module.partition(".")[0], [str(Path.cwd()), *sys.path])
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _find_module_file(module: str) -> Path | None:
    """The file of a module below the current folder, without importing it."""
    path = Path.cwd().joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _defines_function(file: Path, function: str) -> bool:
    defined = find_defined_names(file) if file.is_file() else None
    return defined is not None and function in defined[1]
