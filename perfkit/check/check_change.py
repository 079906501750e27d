"""Checks a change against a revision, a stored baseline, or between two stored runs."""

import difflib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from perfkit.check.cases import Machine
from perfkit.check.check_events import CheckEvent
from perfkit.check.check_options import CheckOptions
from perfkit.check.config import CheckCase, CheckConfig, load_config, parse_budget, parse_thresholds
from perfkit.check.judge.result import Check, Verdict
from perfkit.check.stored_comparison import (
    FigureSource,
    compare_stored,
    make_baseline_source,
    measure_working_tree,
    read_run_source,
)
from perfkit.core.errors import UsageError
from perfkit.devices.machine.device_choice import find_device
from perfkit.devices.machine.machine import count_available_cores
from perfkit.store.baseline import read_baseline
from perfkit.store.git_file import NoRevisionError, read_baseline_at

_FAILURES = (Verdict.FAIL.value, Verdict.WORSE.value)


def check_change(
    run: str | Path | None = None,
    *,
    against_ref: str | None = None,
    against_env: str | None = None,
    env_variables: Mapping[str, str | None] | None = None,
    baseline: str | Path | None = None,
    workload: str | None = None,
    technique: str | None = None,
    thresholds: Mapping[str, str | float] | None = None,
    exact: bool = False,
    budget: str | float | None = None,
    device: str | None = None,
    threads: int | None = None,
    fail_on: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[CheckEvent], None] = lambda _: None,
) -> Check:
    """Check that a change made nothing worse than its thresholds allow, as `perfkit check` does.

    Without `run` the working tree is measured; cases and thresholds come from pyproject.toml or perfkit.toml, and
    arguments override them.

    Args:
        run: a stored run to check in place of the working tree; needs `baseline`.
        against_ref: compare with this git revision, measured side by side with the working tree.
        against_env: compare with this environment, running the same code: requirements such as `torch==2.14.1`, a
            requirements file, a virtual environment's folder or an interpreter.
        env_variables: compare with these environment variables set, or removed if None.
        baseline: compare with a baseline file, a stored run, or the baseline file at a git revision; by default with
            the configured baseline file.
        workload, technique: check these in place of the configured cases.
        thresholds: by quantity, such as `{"step_time": "3%"}`.
        exact: compare only counts, without timing.
        budget: time limit for timing, such as `90s`, or in seconds.
        device, threads: as configured unless given.
        fail_on: fail on this verdict or worse: `fail` or `worse`.
        out: the output folder; by default `runs/TIME-check`.
        progress: receives the events of `perfkit.check.check_events`.

    Raises:
        UsageError: the request is wrong; nothing was run.
    """
    environment = against_env is not None or bool(env_variables)
    measured = {"against_ref": against_ref is not None, "against_env or env_variables": environment}
    both = [name for name, given in measured.items() if given]
    if len(both) > 1 or (both and (baseline is not None or run is not None)):
        raise UsageError(
            f"{' and '.join(both)} measures both sides; omit run and baseline, and give only one", id="usage.conflict"
        )
    if run is not None and baseline is None:
        raise UsageError(f"{run}: an existing run is compared with another one; name it with baseline")
    config = load_check_config(
        workload=workload,
        technique=technique,
        thresholds=thresholds or {},
        device=device,
        threads=threads,
        budget=budget if budget is None or isinstance(budget, str) else f"{budget}s",
        fail_on=fail_on,
    )
    given = {"against_ref": against_ref, "against_env": against_env}
    command = f"perfkit.check({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"
    folder = Path(out) if out is not None else Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-check"
    if run is None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty: name another folder with out", id="usage.occupied")
    began = monotonic()
    before = None if both else load_stored_side(config, baseline)
    order = make_check_options(config, command=command, timed=not exact, progress=progress)
    if environment:
        from perfkit.check.environment_check import check_environment  # not sooner: it imports torch
        from perfkit.check.environments.named_environment import parse_environment

        named = None if against_env is None else parse_environment(against_env)
        return check_environment(config, named, env_variables or {}, folder, order)
    if before is None:
        from perfkit.check.revisions import check_revision  # not sooner: it imports torch

        assert against_ref is not None
        return check_revision(config, against_ref, folder, order)
    after = read_run_source(Path(run)) if run is not None else measure_working_tree(config, folder, order)
    return compare_stored(config, before, after, order, began=began)


def load_check_config(
    *,
    workload: str | None,
    technique: str | None,
    thresholds: Mapping[str, str | int | float],
    device: str | None,
    threads: int | None,
    budget: str | None,
    fail_on: str | None,
    prefix: str = "",
) -> CheckConfig:
    """The current folder's configuration with these overrides; errors name them with `prefix`."""
    config = load_config(Path.cwd())
    overrides = parse_thresholds(thresholds, f"{prefix}threshold")
    cases = config.cases
    if workload is not None:
        same = [case for case in cases if case.workload == workload]
        cases = tuple(same) or (CheckCase(workload=workload, thresholds=config.thresholds),)
    if technique is not None:
        cases = tuple(replace(case, technique=technique) for case in cases)
    if fail_on is not None and fail_on not in _FAILURES:
        raise UsageError(f"{prefix}fail_on {fail_on!r}: expected {' or '.join(_FAILURES)}")
    return replace(
        config,
        cases=tuple(replace(case, thresholds={**case.thresholds, **overrides}) for case in cases),
        thresholds={**config.thresholds, **overrides},
        device=device or config.device,
        threads=threads or config.threads,
        budget_s=config.budget_s if budget is None else parse_budget(budget, f"{prefix}budget"),
        fail_on=config.fail_on if fail_on is None else Verdict(fail_on),
    )


def make_check_options(
    config: CheckConfig, *, command: str, timed: bool, progress: Callable[[CheckEvent], None]
) -> CheckOptions:
    """Measurement options for this machine."""
    target = find_device(config.device)
    machine = Machine(device=target.kind, name=target.name, count=target.visible, cores=count_available_cores())
    return CheckOptions(machine=machine, command=command, timed=timed, progress=progress)


def find_baseline_file(config: CheckConfig, baseline: str | Path | None) -> Path:
    """The named file, else the configured one."""
    return Path(baseline) if baseline is not None else Path(config.root) / config.baseline


def load_stored_side(config: CheckConfig, baseline: str | Path | None = None) -> FigureSource:
    """The figures to compare with: from a file, a folder, or the baseline file at a revision."""
    path = find_baseline_file(config, baseline)
    if path.is_dir():
        return read_run_source(path)
    if baseline is None or path.is_file() or path.suffix == ".json":
        if baseline is None and not path.is_file():
            raise UsageError(
                f"{path}: no such baseline file; write one with `perfkit check --update`, or compare with a "
                "revision: `perfkit check --against-ref main`"
            )
        return make_baseline_source(read_baseline(path), path.name)
    file = Path(config.root) / config.baseline
    try:
        found = read_baseline_at(str(baseline), file)
    except NoRevisionError as error:
        # `runs/none` is a path, not a revision, if a folder `runs` exists.
        if path.is_absolute() or ".." in path.parts or (path.parent != Path() and path.parent.is_dir()):
            sibling = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            near = difflib.get_close_matches(path.name, sibling, n=1)
            meant = f"did you mean {path.with_name(near[0])}?" if near else "name a run's folder or a baseline file"
            raise UsageError(f"{path}: no such file or folder; {meant}", id="usage.no_file") from None
        raise UsageError(
            f"{path}: no such file or folder, and not a git revision either: {error}", id="usage.no_file"
        ) from None
    return make_baseline_source(found, f"{file.name} of {baseline}")
