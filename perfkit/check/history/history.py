"""Builds series from many runs, and finds their changes."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import perfkit
from perfkit.check.history.changes import MACHINE, SeriesRuns, find_exact_changes, find_noisy_changes
from perfkit.check.history.history_reader import RunReading, read_all
from perfkit.check.history.result import History, QuantitySeries, SeriesPoint, find_latest_regressions
from perfkit.check.judge.check_thresholds import Threshold, get_default_thresholds
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity, JudgingMethod
from perfkit.core.git import find_optional_repository
from perfkit.core.note import make_note
from perfkit.core.record.environment import Environment
from perfkit.devices.accelerator import is_cpu

__all__ = ["History", "find_latest_regressions", "read_history"]

# Derived from other quantities: units per step / step time, and FLOPs / step time / peak.
_DERIVED = {"throughput", "mfu"}
_DIRTY = "-dirty"
_NO_MACHINE = "machine not recorded"


def read_history(
    path: Path, repository: Path | None = None, thresholds: Mapping[str, Threshold | None] | None = None
) -> History:
    """Read all runs in a folder, or the commits of a baseline file, and find the changes of each quantity.

    Args:
        path: a folder with suites of `perfkit bench` and `perfkit run` and checks, at any depth; or a baseline file.
        repository: the git repository of the commits; by default the one that contains `path`.
        thresholds: thresholds of changes by quantity; by default the quantities' own.

    Raises `UsageError` if there is nothing to read. Unreadable runs are omitted with a note.
    """
    thresholds_by_name = get_default_thresholds() if thresholds is None else thresholds
    readings = read_all(path)
    repository = repository or find_optional_repository(path if path.is_dir() else path.parent)
    dated, undated = _sort_by_time(readings.entries)
    groups: dict[tuple[str, str, str, str], list[RunReading]] = {}
    for reading in dated:
        key = reading.workload, reading.variant, describe_machine(reading.environment), reading.how
        groups.setdefault(key, []).append(reading)
    series = [
        histories
        for (workload, variant, machine, how), group in sorted(groups.items())
        for quantity in QUANTITIES
        if quantity.name not in _DERIVED
        and (
            histories := _build_series(
                quantity, thresholds_by_name.get(quantity.name), workload, variant, machine, how, group, repository
            )
        )
        is not None
    ]
    machines = tuple(sorted({one.machine for one in series}))
    notes = list(readings.notes)
    if undated:
        text = f"{undated} readings have no valid time and come first in their series"
        notes.append(make_note("history.undated", text, readings=undated))
    if len(machines) > 1:
        text = (
            f"the runs come from {len(machines)} kinds of machines, each with its own series; figures from "
            "different machines are never combined"
        )
        notes.append(make_note("history.machines", text, machines=len(machines)))
    return History(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        folder=str(path),
        repository="" if repository is None else str(repository),
        runs=readings.runs,
        machines=machines,
        series=tuple(series),
        notes=tuple(notes),
    )


def describe_machine(environment: Environment | None) -> str:
    """The fingerprint of a machine: what its figures cannot be joined across, in words."""
    if environment is None:
        return _NO_MACHINE
    fields = {key: getattr(environment, key) for key in MACHINE}
    parts = [environment.device_name]
    if not is_cpu(environment.device):
        parts += [f"{environment.device_count} devices" * (environment.device_count != 1)]
        parts += [f"compute capability {fields['compute_capability']}" * (fields["compute_capability"] is not None)]
    if fields["cpu_model"] and fields["cpu_model"] != environment.device_name:
        parts.append(fields["cpu_model"])
    parts += [f"{fields['cpu_cores']} cores" * (fields["cpu_cores"] is not None)]
    parts += [f"limit {fields['container_cpu_limit']} CPUs" * (fields["container_cpu_limit"] is not None)]
    parts += [f"{fields['threads']} threads" * (fields["threads"] is not None)]
    return ", ".join(filter(None, parts))


def _sort_by_time(readings: Sequence[RunReading]) -> tuple[list[RunReading], int]:
    """Sort by time, stably; readings without a time come first."""
    dated = [(_parse_time(reading.time), reading) for reading in readings]
    first = datetime.min.replace(tzinfo=UTC)
    dated.sort(key=lambda pair: pair[0] or first)  # stable
    return [reading for _, reading in dated], sum(moment is None for moment, _ in dated)


def _parse_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _build_series(
    quantity: GatedQuantity,
    threshold: Threshold | None,
    workload: str,
    variant: str,
    machine: str,
    how: str,
    readings: Sequence[RunReading],
    repository: Path | None,
) -> QuantitySeries | None:
    """The series; None if no run has the quantity."""
    exact = quantity.judging is JudgingMethod.EXACT
    points, environments, unusable = [], [], 0
    for reading in readings:
        known_readings = (reading.exact[quantity.name],) if quantity.name in reading.exact else ()
        processes = known_readings or reading.processes.get(quantity.name, ())
        if not processes:
            continue
        value = median(processes)
        if not all(map(math.isfinite, processes)):
            unusable += 1
            continue
        points.append(_build_point(reading, value, () if exact else processes))
        environments.append(reading.environment)
    if not points:
        return None
    text = f"{unusable} runs without a finite figure are omitted"
    notes = [make_note("history.not_finite", text, runs=unusable)] if unusable else []
    series = QuantitySeries(
        workload=workload,
        variant=variant,
        quantity=quantity.name,
        title=quantity.title,
        unit=quantity.unit,
        more_is_worse=quantity.more_is_worse,
        exact=exact,
        threshold=threshold,
        machine=machine,
        how=how,
        points=tuple(points),
        notes=tuple(notes),
    )
    runs = SeriesRuns(series, tuple(environments), repository)
    return find_exact_changes(runs) if exact else find_noisy_changes(runs)


def _build_point(reading: RunReading, value: float, processes: tuple[float, ...]) -> SeriesPoint:
    revision = reading.revision or ""
    return SeriesPoint(
        time=reading.time,
        value=value,
        processes=processes,
        revision=revision.removesuffix(_DIRTY),
        dirty=revision.endswith(_DIRTY),
        source=reading.source,
    )
