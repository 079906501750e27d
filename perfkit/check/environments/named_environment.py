"""What `--against-env` and `--against-env-var` name: an interpreter, packages, or environment variables."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from perfkit.core.errors import UsageError

_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?(===|==|~=|!=|<=|>=|<|>|@)\S+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTERPRETERS = ("bin/python", "Scripts/python.exe", "python.exe")  # of a virtual or conda environment


class NamedEnvironment(NamedTuple):
    """An environment as it was named: one of the four is given.

    `interpreter` is an existing one; `requirements` replace packages of the current environment; `file`, as for
    `pip install -r`, and `packages` have all packages of another one.
    """

    label: str
    interpreter: Path | None = None
    requirements: tuple[str, ...] = ()
    file: Path | None = None
    packages: tuple[str, ...] = ()


def parse_environment(text: str) -> NamedEnvironment:
    """The environment named by a path (a virtual environment, an interpreter, a requirements file) or by requirements.

    Requirements are separated by spaces, and have none in themselves: `torch==2.14.1 numpy==2.3.0`.

    Raises:
        UsageError: neither an existing path nor requirements.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        found = next((path / name for name in _INTERPRETERS if (path / name).is_file()), None)
        if found is None:
            raise UsageError(f"{text}: no environment: it has no {_INTERPRETERS[0]}", id="usage.no_file")
        return NamedEnvironment(text, interpreter=found.absolute())
    if path.is_file():
        if os.access(path, os.X_OK):
            return NamedEnvironment(text, interpreter=path.absolute())
        return NamedEnvironment(text, file=path.absolute())
    requirements = tuple(text.split())
    if requirements and all(_REQUIREMENT.fullmatch(each) for each in requirements):
        return NamedEnvironment(text, requirements=requirements)
    raise UsageError(
        f"{text!r} names no environment: expected requirements such as 'torch==2.14.1', a requirements file, a virtual "
        "environment's folder or a Python interpreter",
        id="usage.no_file",
    )


def parse_variables(texts: Iterable[str]) -> dict[str, str | None]:
    """Environment variables from `NAME=VALUE`; `NAME` alone removes it, which is None.

    Raises:
        UsageError: no name of a variable.
    """
    variables: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"{text!r}: expected NAME=VALUE, or NAME to remove it, such as OMP_NUM_THREADS=1")
        variables[name] = value if equals else None
    return variables
