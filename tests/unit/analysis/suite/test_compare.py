import math
from pathlib import Path

import pytest

from perfkit.analysis.suite.compare import compare_to_baseline, compute_log_ratios
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.store.suite_reader import read_suite
from tests.fixtures.suites import record, spec, write_run, write_suite_file


def test_ratio_interval_and_detectable_change_by_hand() -> None:
    # ratios 0.5 and 0.5 * 1.1: logs differ by ln 1.1, s = ln 1.1 / sqrt 2, s / sqrt n = ln 1.1 / 2
    result = compare_to_baseline("baseline", [math.log(0.5), math.log(0.55)])
    assert result.ratio == pytest.approx(0.5 * math.sqrt(1.1))
    half = 12.706205 * math.log(1.1) / 2
    assert result.low == pytest.approx(result.ratio * math.exp(-half), rel=1e-6)
    assert result.high == pytest.approx(result.ratio * math.exp(half), rel=1e-6)
    assert result.detectable == pytest.approx(math.exp((12.706205 + 1.376382) * math.log(1.1) / 2) - 1, rel=1e-6)
    assert (result.verdict, result.pairs) == ("faster", 2)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((0.9, 0.9, 0.901), "faster"),
        ((1.1, 1.1, 1.101), "slower"),
        ((0.999, 1.0, 1.001), "no difference"),
        ((0.8, 1.0, 1.2), "inconclusive"),
        ((0.1,), "inconclusive"),
    ],
)
def test_verdicts(ratios: tuple[float, ...], verdict: str) -> None:
    result = compare_to_baseline("baseline", [math.log(ratio) for ratio in ratios])
    assert result.verdict == verdict


def test_one_pair_shows_its_ratio_but_no_interval() -> None:
    result = compare_to_baseline("baseline", [math.log(0.5)])
    assert (result.ratio, result.low, result.high, result.detectable, result.pairs) == (0.5, None, None, None, 1)


def test_without_a_pair_there_is_no_comparison() -> None:
    assert compare_to_baseline("baseline", []) is None


def test_sampling_until_narrow_pays_for_it_with_a_wider_interval() -> None:
    logs = [0.0, 0.01, 0.02, 0.03]
    planned, stopped = compare_to_baseline("baseline", logs), compare_to_baseline("baseline", logs, precision=0.05)
    assert planned.ratio == stopped.ratio
    assert math.log(stopped.high / stopped.low) / math.log(planned.high / planned.low) == pytest.approx(
        4.176535 / 3.182446, rel=1e-6
    )
    assert (planned.more_pairs, stopped.more_pairs) == (None, None)  # narrow enough
    assert (
        compare_to_baseline("baseline", logs, precision=0.01).more_pairs == 8
    )  # t(0.9875, 11) 0.0129 / sqrt(12) = 0.0097
    assert compare_to_baseline("baseline", [0.0], precision=0.01).more_pairs is None


def runs(folder: Path, variant: str, steps: dict[int, tuple[float, ...]], turns: tuple[str, ...] = ()) -> VariantRuns:
    """By repeat the steps of a run; those after the first took `turns`."""
    names = {
        repeat: write_run(
            folder,
            spec(variant),
            repeat,
            [record(walls)],
            RunResult(status=RunStatus.OK, interleaved_variants=turns if repeat else ()),
        )
        for repeat, walls in steps.items()
    }
    write_suite_file(folder, [variant], list(names.values()))
    return VariantRuns(variant, read_suite(folder).runs)


def test_pairs_are_made_by_repeat_so_that_common_drift_cancels(tmp_path: Path) -> None:
    reference = runs(tmp_path / "a", "baseline", {0: (1.0, 1.0), 1: (2.0, 2.0), 2: (4.0, 4.0), 3: (9.0, 9.0)})
    variant = runs(tmp_path / "b", "amp", {0: (1.1, 1.1), 1: (2.2, 2.2), 2: (4.4, 4.4), 5: (1.0, 1.0)})
    assert compute_log_ratios(reference, variant) == pytest.approx([math.log(1.1)] * 3)
    assert len(compute_log_ratios(reference, variant, cpu=True)) == 3


def test_runs_that_took_turns_are_compared_turn_by_turn_and_alone(tmp_path: Path) -> None:
    both = ("baseline", "amp")
    reference = runs(tmp_path / "a", "baseline", {0: (1.0,), 1: (1.0, 2.0, 9.0)}, both)
    variant = runs(tmp_path / "b", "amp", {0: (5.0,), 1: (2.0, 4.0, 9.0)}, both)
    assert compute_log_ratios(reference, variant) == pytest.approx([math.log(2.0)])
    assert variant.list_median_steps(lambda samples: samples.wall_s) == [4.0]  # the first run had the machine to itself
