"""What the trace says beside what was timed."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.pipeline import read_passes
from perfkit.check import variant_check
from perfkit.check.judge.result import ChangeExplanation, JudgedQuantity, Verdict
from perfkit.check.side_observations import observe_case
from perfkit.check.variant_check import check_variant
from perfkit.check.why.explanation import check_traced_change
from perfkit.core.record.quantity import get_whole
from perfkit.store.layout import TRACE_FILE
from perfkit.trace.model import Trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures import sample_checks
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_suite
from tests.fixtures.traces import mark, op, write_trace

REGRESSED = sample_checks.regressed()


def with_traced(times_as_long: float) -> ChangeExplanation:
    assert REGRESSED.explanation.time is not None
    time = msgspec.structs.replace(REGRESSED.explanation.time, before_step_s=0.1, after_step_s=0.1 * times_as_long)
    return msgspec.structs.replace(REGRESSED.explanation, time=time)


def timed(low: float | None, high: float | None) -> list[JudgedQuantity]:
    (step_time,) = [each for each in REGRESSED.quantities if each.quantity == "step_time"]
    return [msgspec.structs.replace(step_time, low=low, high=high)]


def test_a_trace_that_exaggerates_is_told() -> None:
    (note,) = check_traced_change(with_traced(1.52), timed(0.065, 0.229))
    assert list_figures(note.text) == ["+52.0 %", "+6.5 %", "+22.9 %"]


@pytest.mark.parametrize(
    ("found", "judged"),
    [
        (with_traced(1.1), timed(0.065, 0.229)),
        (with_traced(1.52), timed(None, None)),
        (with_traced(1.52), []),
        (None, timed(0.065, 0.229)),
        (ChangeExplanation(), timed(0.065, 0.229)),
    ],
)
def test_nothing_is_told_where_they_agree_or_one_is_not_known(
    found: ChangeExplanation | None, judged: list[JudgedQuantity]
) -> None:
    assert list(check_traced_change(found, judged)) == []


def test_a_side_is_judged_from_what_was_read_of_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three traced variants each trace is read once a side, for figures, verdicts and reasons together."""
    sides = []
    for name in ("before", "after"):
        folder = write_suite(tmp_path / name, {each: [record()] for each in ("baseline", "amp", "ckpt")})
        for run in folder.glob("*/0/rank0"):
            write_trace(
                run / TRACE_FILE, [mark("perfkit::step#3", 0, 1000), op("aten::mm", 100, 200, [(8, 8), (8, 8)])]
            )
        sides.append(folder)
    read: list[Path] = []

    def counted(path: Path) -> Trace:
        read.append(path)
        return read_trace(path)

    monkeypatch.setattr(read_passes, "read_trace", counted)
    before, after = (observe_case([side]) for side in sides)
    checked = [check_variant("gpt", name, before.variants[name], after.variants[name], {}) for name in after.variants]
    assert all(each.explanation is not None and each.explanation.time is not None for each in checked)
    for each in checked:
        result = after.variants[each.variant].result
        assert result is not None
        assert {judged.of for judged in each.quantities if judged.quantity == "mfu"} == {get_whole(result.mfu)}
    assert (len(checked), len(read), len(set(read))) == (3, 6, 6)


@pytest.mark.parametrize(
    ("verdict", "suspected"),
    [
        (Verdict.PASS, False),
        (Verdict.INCONCLUSIVE, False),
        (Verdict.NOT_COMPARED, False),
        (Verdict.WORSE, True),
        (Verdict.FAIL, True),
        (Verdict.IMPROVED, True),
    ],
)
def test_ops_are_suspected_for_their_time_where_steps_differ_for_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, suspected: bool
) -> None:
    """The same calls on both sides, of which one takes three times as long."""
    sides = []
    for side, slow in (("before", 100), ("after", 300)):
        folder = write_suite(tmp_path / side, {"baseline": [record()]})
        events = []
        for step in range(3):
            start = 10_000 * step
            events.append(mark(f"perfkit::step#{step}", start, 5_000))
            events.append(op("aten::mm", start, slow, [(8, 8), (8, 8)]))
            events += [op(f"aten::quiet{n}", start + 400 + 100 * n, 90, [(8,)]) for n in range(10)]
        write_trace(folder / "baseline/0/rank0" / TRACE_FILE, events)
        sides.append(observe_case([folder]).variants["baseline"])
    judged = msgspec.structs.replace(timed(None, None)[0], verdict=verdict)
    monkeypatch.setattr(variant_check, "judge_variant", lambda *_: (judged,))
    explained = check_variant("gpt", "baseline", *sides, {}).explanation
    assert explained is not None
    assert any("aten::mm" in suspect for suspect in explained.suspects) == suspected
