"""When measuring pairs ends, with pairs that take as long as they say."""

import pytest

from perfkit.check.sides import measure
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.pair_events import PairFinished, PairStarted
from perfkit.check.sides.side import MeasuredSide, SideFailedError
from perfkit.core.errors import UsageError
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import RunSpec, WorkloadSpec
from perfkit.instruments.sensors.machine_load import LoadReading
from perfkit.store.pairs import LOCK_STEP, PAIRS_FILE, Pair, Pairs
from tests.fixtures.figures import list_figures


@pytest.fixture
def pairs_of(monkeypatch, tmp_path):
    """Measure pairs that take the given seconds each, within limits; gives the pairs, their indices and the events."""

    def run(seconds, *, most=100, budget_s=1000.0, enough=lambda pairs: "", turns=LOCK_STEP):
        indices, events = [], []

        def measured(before, after, spec, folder, *, index, report):
            indices.append((index, folder.name))
            took = seconds[index]
            if took is None:
                raise SideFailedError(after, RunResult(status=RunStatus.FAILED, reason="ValueError: no"))
            return Pair(before=StepSamples(wall_s=(1.0,)), after=StepSamples(wall_s=(2.0,)), seconds=took)

        monkeypatch.setitem(measure.TURNS, LOCK_STEP, measured)
        side = MeasuredSide(label="side", root=tmp_path, tree=tmp_path)
        pairs = measure_pairs(
            side,
            side,
            RunSpec(workload=WorkloadSpec(name="gpt")),
            turns=turns,
            most=most,
            budget_s=budget_s,
            folder=tmp_path / "pairs",
            enough=enough,
            progress=events.append,
        )
        return pairs, indices, events

    return run


def test_the_caller_ends_it(pairs_of, tmp_path):
    pairs, indices, _ = pairs_of([1.0] * 9, enough=lambda pairs: "decided" if len(pairs.pairs) == 3 else "")
    assert pairs.end_reason == "decided"
    assert indices == [(0, "000"), (1, "001"), (2, "002")]
    assert read_json(tmp_path / "pairs" / PAIRS_FILE, Pairs) == pairs
    assert pairs.variant == "baseline"


def test_each_pair_has_what_else_the_machine_did(pairs_of, monkeypatch):
    empty = LoadReading(0.0, 2, 0.0, 0.0, 0.0, 0.0, None, None)
    worked = iter([0.0, 5.0, 5.0, 45.0])  # seconds of all cores; perfkit's own are none of them
    readings = (
        empty._replace(time_s=time_s, counted_s=2 * time_s, worked_s=worked_s)
        for time_s, worked_s in zip((0.0, 10.0, 10.0, 30.0), worked, strict=True)
    )
    monkeypatch.setattr(measure, "read_load", lambda: next(readings))
    pairs, _, _ = pairs_of([10.0, 20.0], most=2)
    assert [(pair.load.other_cores, pair.load.cores) for pair in pairs.pairs] == [(0.5, 2), (2.0, 2)]


def test_the_number_is_bounded(pairs_of):
    pairs, _, events = pairs_of([1.0] * 9, most=2)
    assert len(pairs.pairs) == 2
    assert list_figures(pairs.end_reason) == ["2"]
    assert [type(event) for event in events] == [PairStarted, PairFinished] * 2
    assert events[2].spent_s == 1.0


@pytest.mark.parametrize(
    ("budget_s", "count"),
    [
        (30.0, 3),  # used to the last second
        (39.9, 3),  # a fourth would not fit
        (40.0, 4),
        (1.0, 1),  # the first is measured in any case
    ],
)
def test_no_pair_is_begun_that_would_not_fit(pairs_of, budget_s, count):
    pairs, _, _ = pairs_of([10.0] * 9, budget_s=budget_s)
    assert len(pairs.pairs) == count
    assert "a pair takes 10.0 s" in pairs.end_reason


def test_one_slow_pair_does_not_stand_for_the_next(pairs_of):
    pairs, _, _ = pairs_of([30.0, 10.0, 10.0, 10.0, 10.0], budget_s=71.0)
    assert len(pairs.pairs) == 5


def test_what_was_measured_before_a_failure_is_kept(pairs_of, tmp_path):
    with pytest.raises(SideFailedError, match=r"side: .* ValueError: no"):
        pairs_of([1.0, 1.0, None])
    kept = read_json(tmp_path / "pairs" / PAIRS_FILE, Pairs)
    assert len(kept.pairs) == 2
    assert kept.end_reason == ""


def test_what_cannot_be_is_refused(pairs_of, tmp_path):
    with pytest.raises(UsageError, match=r"lock-step.* 'both'"):
        pairs_of([1.0], turns="both")
    with pytest.raises(UsageError, match=r"pair.* 0"):
        pairs_of([1.0], most=0)
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "file").touch()
    with pytest.raises(UsageError, match="already exists"):
        pairs_of([1.0])
