"""Traces that are damaged or odd are replayed, or not, and raise nothing."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from perfkit.analysis.replay.replay import simulate_what_if
from perfkit.core.errors import UsageError
from tests.fixtures.synthetic_machine.kineto import write
from tests.fixtures.synthetic_machine.machine import run
from tests.fixtures.synthetic_machine.random_programs import program
from tests.fixtures.synthetic_machine.replayed import replayed_file

QUESTIONS = ("kernels=0.5", "host=0.5", "comm=0", "sync=none", "graphs", "fuse=elementwise")
Events = list[dict[str, Any]]


def _dropped(events: Events, random: Random) -> Events:
    return [event for event in events if random.random() < 0.7]


def _only_kernels(events: Events, random: Random) -> Events:
    return [event for event in events if event["cat"] in ("kernel", "gpu_memcpy")]


def _without_kernels(events: Events, random: Random) -> Events:
    return [event for event in events if event["cat"] not in ("kernel", "gpu_memcpy")]


def _shifted(events: Events, random: Random) -> Events:
    return [{**event, "ts": event["ts"] + random.choice((0.0, 0.0, -500.0, 300.0))} for event in events]


def _device_clock_off(events: Events, random: Random) -> Events:
    off = random.choice((-5000.0, -50.0, 700.0))
    return [{**event, "ts": event["ts"] + off * (event["cat"] == "kernel")} for event in events]


def _instant(events: Events, random: Random) -> Events:
    return [{**event, "dur": event["dur"] * (random.random() < 0.5)} for event in events]


def _all_at_once(events: Events, random: Random) -> Events:
    return [{**event, "ts": 1e6} for event in events]


def _twice(events: Events, random: Random) -> Events:
    return events + events[:: random.randint(1, 5)]


def _one_correlation(events: Events, random: Random) -> Events:
    return [{**event, "args": {**event.get("args", {}), "correlation": random.randint(1, 3)}} for event in events]


def _overlapping(events: Events, random: Random) -> Events:
    return [{**event, "dur": event["dur"] * random.choice((1, 1, 8))} for event in events]


def _few(events: Events, random: Random) -> Events:
    return random.sample(events, random.randint(1, 4))


VARIANTS = [
    _dropped, _only_kernels, _without_kernels, _shifted, _device_clock_off, _instant, _all_at_once, _twice,
    _one_correlation, _overlapping, _few,
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(4))
def test_odd_traces_raise_nothing(variant: Any, seed: int, tmp_path: Path) -> None:
    path = write(run(program(seed, size=20, long_queue=0.0))[0], tmp_path / "trace.json")
    trace = json.loads(path.read_text())
    random = Random(seed)
    trace["traceEvents"] = variant(trace["traceEvents"], random)
    path.write_text(json.dumps(trace))
    replayed = replayed_file(path)
    if replayed is None:
        return
    result = replayed.result
    assert np.isfinite([result.error, result.replayed_s, result.busy_share, *result.critical_path.values()]).all()
    assert min(result.critical_path.values(), default=0.0) >= 0
    assert sum(result.critical_path.values()) == pytest.approx(result.replayed_s)
    for text in QUESTIONS:
        try:
            asked = simulate_what_if(replayed, text)
        except UsageError:  # nothing of that kind is left in it
            continue
        assert asked.gain_s is None or asked.gain_s <= result.replayed_s
        assert (asked.gain_s is None) == bool(result.reason)
