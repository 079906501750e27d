"""The bytes of collectives by torch's flight recorder, of recordings made by hand."""

import pickle
from typing import Any

import pytest

from perfkit.instruments.facts import recorded_collectives
from perfkit.instruments.facts.recorded_collectives import count_recorded_bytes
from perfkit.instruments.trace_recording import TimeWindow
from tests.fixtures.flight_dumps import dump, entry

WINDOW = TimeWindow(1000, 3000, 2)


def count(monkeypatch: pytest.MonkeyPatch, *entries: dict[str, Any], ranks: int = 4) -> dict[str, float]:
    made = pickle.dumps({**dump(*entries), "pg_config": {}})
    monkeypatch.setattr(recorded_collectives.c10d, "_dump_fr_trace", lambda *_: made)
    return count_recorded_bytes(WINDOW, ranks)


def call(number: int, at_ns: int, op: str = "all_reduce", sent: int = 100, got: int = 100) -> dict[str, Any]:
    sizes = {"input_sizes": [[sent]], "output_sizes": [[got]], "input_dtypes": ["Float"], "output_dtypes": ["Float"]}
    return {**entry(number, op), **sizes, "record_id": number, "time_created_ns": at_ns}


def test_bytes_are_those_of_the_steps_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = count(
        monkeypatch,
        call(0, 900),
        call(1, 1000),
        call(2, 1500, sent=50, got=50),
        call(3, 2999, "allgather", sent=10, got=40),
        call(4, 3000),
    )
    assert facts == {
        "recorded_collectives": 1.5,
        "collective_bytes:all-reduce": 300.0,
        "collective_volume:all-reduce": 450.0,
        "collective_bytes:all-gather": 80.0,
        "collective_volume:all-gather": 60.0,
    }


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (call(0, 900),),
        (call(7, 1100), call(8, 1200)),  # the ring has dropped some
        (call(0, 1100, "other"),),
        ({**call(0, 1100), "input_dtypes": ["Quantized"]},),
        ({**call(0, 1100), "process_group": ("3", "pairs")},),
    ],
)
def test_what_is_unknown_is_left_out(monkeypatch: pytest.MonkeyPatch, entries: tuple[dict[str, Any], ...]) -> None:
    assert count(monkeypatch, *entries) == {}
