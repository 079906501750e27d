import numpy as np
import pytest
from scipy import stats

from perfkit.check.judge.check_thresholds import parse_threshold
from perfkit.check.judge.paired_processes import judge_processes
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity
from perfkit.check.judge.result import JudgedQuantity, Verdict

COMPILE, WAIT = (next(each for each in QUANTITIES if each.name == name) for name in ("compile_time", "data_wait"))
RATE = next(each for each in QUANTITIES if each.name == "throughput")
QUIET = (1.00, 1.01, 0.99, 1.02, 0.98, 1.00)


def _judge(
    quantity: GatedQuantity,
    before: tuple[float, ...],
    after: tuple[float, ...],
    threshold: str | None,
    paired: bool = True,
) -> JudgedQuantity:
    parsed = (
        None if threshold is None else parse_threshold(threshold, quantity.unit, more_is_worse=quantity.more_is_worse)
    )
    return judge_processes(quantity, before, after, parsed, paired=paired)


def _times(figures: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(figure * factor for figure in figures)


@pytest.mark.parametrize("paired", [True, False])
def test_verdicts_of_what_varies_little(paired: bool) -> None:
    other = (1.01, 0.99, 1.00, 0.98, 1.01, 1.02)
    verdicts = [_judge(COMPILE, QUIET, _times(other, factor), "10%", paired).verdict for factor in (1.0, 1.3, 0.7)]
    assert verdicts == [Verdict.PASS, Verdict.FAIL, Verdict.IMPROVED]


def test_a_rate_that_falls_fails() -> None:
    judged = _judge(RATE, QUIET, _times(QUIET[::-1], 0.7), "10%", paired=False)
    assert judged.verdict is Verdict.FAIL
    assert judged.change == pytest.approx(-0.3, abs=0.01)
    assert judged.high is not None
    assert judged.high < 0


def test_pairs_tell_more_than_groups_where_the_machine_drifts() -> None:
    drifting = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
    slower = tuple(figure * factor for figure, factor in zip(drifting, _times(QUIET, 1.3), strict=True))
    assert _judge(COMPILE, drifting, slower, "10%", paired=True).verdict is Verdict.FAIL
    open_ = _judge(COMPILE, drifting, slower, "10%", paired=False)
    assert open_.verdict is Verdict.INCONCLUSIVE
    assert "more processes" in open_.data_needed


def test_the_interval_of_groups_is_welchs() -> None:
    before, after = np.array(QUIET), np.array((1.2, 1.1, 1.3))
    judged = _judge(COMPILE, tuple(before), tuple(after), None, paired=False)
    expected = stats.ttest_ind(np.log(after), np.log(before), equal_var=False).confidence_interval(0.98)
    assert judged.low == pytest.approx(np.expm1(expected.low))
    assert judged.high == pytest.approx(np.expm1(expected.high))


def test_two_stay_two_when_the_sides_are_of_different_size() -> None:
    assert _judge(COMPILE, QUIET, QUIET[:2], None, paired=False).samples == 2
    with pytest.raises(ValueError, match=r"6 .* 2 "):
        _judge(COMPILE, QUIET, QUIET[:2], None, paired=True)


def test_a_single_process_is_inconclusive_and_none_is_not_compared() -> None:
    one = _judge(COMPILE, (1.0,), (9.0,), "10%")
    assert one.verdict is Verdict.INCONCLUSIVE
    assert "single process" in one.reason
    assert _judge(COMPILE, (), (9.0,), "10%", paired=False).verdict is Verdict.NOT_COMPARED


def test_figures_with_zeros_are_compared_by_their_differences() -> None:
    before = (0.0, 0.010, 0.011, 0.009, 0.010, 0.010)
    judged = _judge(WAIT, before, tuple(figure + 0.02 for figure in before), "50%")
    assert judged.verdict is Verdict.FAIL
    assert judged.change == pytest.approx(0.02 / np.mean(before))


def test_nothing_before_and_nothing_after_is_equal() -> None:
    judged = _judge(WAIT, (0.0,) * 3, (0.0,) * 3, "5%")
    assert (judged.verdict, judged.change) == (Verdict.PASS, 0.0)


def test_of_nothing_before_only_an_absolute_threshold_decides() -> None:
    nothing, some = (0.0,) * 4, (0.020, 0.021, 0.019, 0.020)
    assert _judge(WAIT, nothing, some, "5%").verdict is Verdict.INCONCLUSIVE
    assert "absolute" in _judge(WAIT, nothing, some, "5%").data_needed
    assert _judge(WAIT, nothing, some, "+5ms").verdict is Verdict.FAIL
    assert _judge(WAIT, nothing, some, "+50ms").verdict is Verdict.WORSE
    assert _judge(WAIT, nothing, some, "<=50ms").verdict is Verdict.WORSE
    assert _judge(WAIT, nothing, (0.0, 0.0, 0.0, 0.02), "+500ms").verdict is Verdict.PASS
    assert _judge(WAIT, nothing, (0.0, 0.0, 0.0, 0.02), "+5ms").verdict is Verdict.INCONCLUSIVE
    assert _judge(WAIT, nothing, some, None).change is None


def test_more_quantities_make_a_failure_harder() -> None:
    threshold = parse_threshold("10%", "s", more_is_worse=True)
    after = _times((1.01, 0.99, 1.00, 0.98, 1.01, 1.02), 1.2)
    verdicts = [
        judge_processes(COMPILE, QUIET, after, threshold, paired=True, family=family).verdict
        for family in (1, 10_000_000)
    ]
    assert verdicts == [Verdict.FAIL, Verdict.INCONCLUSIVE]
