"""What the trace says beside what was timed."""

import msgspec
import pytest

from perfkit.check.result import Judged, Why
from perfkit.check.why.why import traced_otherwise
from tests.fixtures import sample_checks

REGRESSED = sample_checks.regressed()


def with_traced(times_as_long: float) -> Why:
    assert REGRESSED.why is not None
    assert REGRESSED.why.time is not None
    time = msgspec.structs.replace(REGRESSED.why.time, before_step_s=0.1, after_step_s=0.1 * times_as_long)
    return msgspec.structs.replace(REGRESSED.why, time=time)


def timed(low: float | None, high: float | None) -> list[Judged]:
    (step_time,) = [each for each in REGRESSED.judged if each.quantity == "step_time"]
    return [msgspec.structs.replace(step_time, low=low, high=high)]


def test_a_trace_that_exaggerates_is_told() -> None:
    (note,) = traced_otherwise(with_traced(1.52), timed(0.065, 0.229))
    assert note == (
        "the traced steps changed by +52.0 %, those without a profiler by +6.5 % to +22.9 %: the trace tells which ops "
        "changed, but not how much of the step time they are"
    )


@pytest.mark.parametrize(
    ("found", "judged"),
    [
        (with_traced(1.1), timed(0.065, 0.229)),
        (with_traced(1.52), timed(None, None)),
        (with_traced(1.52), []),
        (None, timed(0.065, 0.229)),
        (Why(), timed(0.065, 0.229)),
    ],
)
def test_nothing_is_told_where_they_agree_or_one_is_not_known(found: Why | None, judged: list[Judged]) -> None:
    assert list(traced_otherwise(found, judged)) == []
