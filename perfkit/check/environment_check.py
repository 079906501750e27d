"""Two environments measured now, by turns: the current one against other packages, interpreters or variables."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from perfkit.check.check_events import EnvironmentEvent
from perfkit.check.check_options import CheckOptions
from perfkit.check.config import CheckConfig
from perfkit.check.environments.create_environment import create_environment
from perfkit.check.environments.installed_packages import list_versions
from perfkit.check.environments.named_environment import NamedEnvironment
from perfkit.check.environments.probe_interpreter import expose_perfkit, probe_interpreter
from perfkit.check.judge.result import Check
from perfkit.check.revisions import check_sides
from perfkit.check.sides.revision import read_working_tree
from perfkit.check.sides.side import MeasuredSide, make_side
from perfkit.core.texts.redact import redact_arguments

THIS_ENVIRONMENT = "this environment"
_ABSENT = "not installed"
_UNSET = "not set"


def check_environment(
    config: CheckConfig,
    named: NamedEnvironment | None,
    variables: Mapping[str, str | None],
    out: Path,
    order: CheckOptions,
) -> Check:
    """The working tree around `config.root` in this environment against itself in another, measured into `out`.

    Args:
        named: the other interpreter or packages; None: this interpreter.
        variables: environment variables of the other side; None removes one.

    Raises:
        UsageError: the other environment cannot be found or cannot measure; nothing was run.
        PerfkitError: it cannot be created.
    """
    here = make_side(read_working_tree(Path(config.root)), config.python_path)
    after = dataclasses.replace(here, label=THIS_ENVIRONMENT)
    before = dataclasses.replace(here, label=format_label(named, variables), variables=variables)
    changed = tuple(compare_variables(variables))
    if named is None:
        check = check_sides(config, before, after, out, order)
        return replace(check, under_test="environment", environment_differences=_join(check, changed))
    with open_environment(named, before, order) as (side, versions):
        check = check_sides(config, side, after, out, order)
    packages = tuple(f"{name}: {old} -> {new}" for name, old, new in compare_versions(versions, list_versions()))
    return replace(check, under_test="environment", environment_differences=_join(check, (*changed, *packages)))


def compare_variables(variables: Mapping[str, str | None]) -> Iterator[str]:
    """The variables of the other side that differ from this process's, with both values; secrets are left out."""
    for name, value in variables.items():
        here = os.environ.get(name)
        if here != value:
            old, new = (
                _UNSET if each is None else next(iter(redact_arguments((f"{name}={each}",)))).partition("=")[2]
                for each in (value, here)
            )
            yield f"{name}: {old} -> {new}"


def _join(check: Check, more: Iterable[str]) -> tuple[str, ...]:
    """The differences that were recorded, and those that were not."""
    told = {each.partition(":")[0] for each in check.environment_differences}
    return (*check.environment_differences, *(each for each in more if each.partition(":")[0] not in told))


@contextmanager
def open_environment(
    named: NamedEnvironment, side: MeasuredSide, order: CheckOptions
) -> Iterator[tuple[MeasuredSide, dict[str, str]]]:
    """The side in the named environment, which is created if need be, and the versions of its packages."""
    interpreter = named.interpreter or create_environment(
        named, lambda text: order.progress(EnvironmentEvent(named.label, text))
    )
    with expose_perfkit() as package:
        folders = (*(side.root / folder for folder in side.python_path), package)
        versions = probe_interpreter(interpreter, folders)
        path = (*side.python_path, str(package))
        yield dataclasses.replace(side, interpreter=interpreter, python_path=path), versions


def format_label(named: NamedEnvironment | None, variables: Mapping[str, str | None]) -> str:
    """The other side's name for users, without secrets: `torch==2.14.1, OMP_NUM_THREADS=1`."""
    given = redact_arguments(f"{name}={value}" for name, value in variables.items() if value is not None)
    removed = (f"without {name}" for name, value in variables.items() if value is None)
    return ", ".join((*((named.label,) if named is not None else ()), *given, *removed))


def compare_versions(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The packages that differ, each with both versions, by name."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if old != new:
            yield name, old, new
