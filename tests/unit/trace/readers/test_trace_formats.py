"""The same recording in every format: equal where the format holds the facts."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.analyze import analyze
from perfkit.trace.model import DEVICE_CATEGORIES, Category, Trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.synthetic_machine import kineto, machine
from tests.fixtures.synthetic_machine.random_programs import program
from tests.fixtures.trace_formats import write_nsys, write_pftrace, write_rocprofv3, write_xplane

Writer = Callable[[Path, Path], Path]
WRITERS = [pytest.param(write_pftrace, id="pftrace"), pytest.param(write_nsys, id="nsys")]
# Formats that number processes by themselves and hold no waits.
OTHER_WRITERS = [pytest.param(write_xplane, id="xplane"), pytest.param(write_rocprofv3, id="rocprofv3")]
SEEDS = (2, 5, 11, 23)


def list_events(trace: Trace, *categories: Category) -> list[tuple[object, ...]]:
    """Name, times, thread, correlation, device and stream of events of these categories."""
    rows = []
    for index in trace.select_events(*categories).tolist():
        name, thread = trace.names[trace.name[index]], trace.threads[trace.thread[index]]
        columns = (trace.start_ns, trace.end_ns, trace.correlation, trace.device, trace.stream)
        # One format writes the direction of a copy, the other its kinds of memory too.
        rows.append((re.sub(r"^Memcpy.*", "Memcpy", name), *thread, *(int(column[index]) for column in columns)))
    return sorted(rows)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_work_calls_and_waits_are_equal(tmp_path: Path, seed: int, write: Writer) -> None:
    rank = machine.run(program(seed))[0]
    source = kineto.write(rank, tmp_path / "trace.json", ahead_ns=1_700_000_000_000_000_000, syncs=True)
    mine, other = read_trace(source), read_trace(write(source, tmp_path / "other"))
    assert list_events(other, *DEVICE_CATEGORIES) == list_events(mine, *DEVICE_CATEGORIES)
    assert list_events(other, Category.LAUNCH) == list_events(mine, Category.LAUNCH)
    assert other.base_ns == mine.base_ns
    for name in ("kind", "time_ns", "call", "device", "stream"):
        assert getattr(other.syncs, name).tolist() == getattr(mine.syncs, name).tolist(), name


@pytest.mark.parametrize("write", OTHER_WRITERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_work_and_calls_are_equal_but_for_the_numbers_of_processes(tmp_path: Path, seed: int, write: Writer) -> None:
    rank = machine.run(program(seed))[0]
    source = kineto.write(rank, tmp_path / "trace.json", ahead_ns=1_700_000_000_000_000_000)
    mine, other = read_trace(source), read_trace(write(source, tmp_path / "other"))
    for categories in (DEVICE_CATEGORIES, (Category.LAUNCH,)):
        rows = [sorted((name, *rest) for name, _, *rest in list_events(each, *categories)) for each in (other, mine)]
        assert rows[0] == rows[1]
    assert other.devices == mine.devices
    assert other.base_ns == (0 if write is write_rocprofv3 else mine.base_ns)


@pytest.mark.parametrize("write", [*WRITERS, *OTHER_WRITERS])
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_steps_and_where_their_time_goes_are_equal(tmp_path: Path, seed: int, write: Writer) -> None:
    rank = machine.run(program(seed))[0]
    source = kineto.write(rank, tmp_path / "trace.json", ahead_ns=1_700_000_000_000_000_000)
    other = write(source, tmp_path / "other.pftrace")
    mine, others = (summarize(analyze(str(path)).traces[0]) for path in (source, other))
    assert others == mine


def summarize(trace: RankTrace) -> dict[str, object]:
    """What a report says of steps, of idle time and of kernels."""
    kernels = [row for row in trace.kernels if "Memcpy" not in row.name]
    return {
        "steps": [(step.number, round(step.seconds * 1e9)) for step in trace.steps],
        "split": {part.category: round(part.seconds * 1e9) for part in trace.time_split},
        "kernels": sorted((row.name, row.calls, round(row.seconds * 1e9)) for row in kernels),
        "blocking": None if trace.launches is None else trace.launches.sync_calls,
    }


@pytest.mark.parametrize("write", OTHER_WRITERS)
def test_a_trace_compares_with_itself_in_another_format(tmp_path: Path, write: Writer) -> None:
    source = kineto.write(machine.run(program(SEEDS[0]))[0], tmp_path / "trace.json")
    difference = analyze(str(write(source, tmp_path / "other")), against=str(source)).difference
    assert difference is not None
    assert difference.before_step_s == difference.after_step_s > 0
    changes = [(row.after_s or 0) - (row.before_s or 0) for row in difference.changes]
    assert sum(changes) == pytest.approx(0, abs=1e-9)
    if write is not write_xplane:  # has no ops: its kernels are rows by their own names
        assert not any(changes)
