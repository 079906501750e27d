"""Variants whose batches differ from the baseline's are compared by the token or sample."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.claim import ParityRule, Relation
from perfkit.core.record.memory import MemoryPeaks
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.record.rank_record import WorkloadFacts
from perfkit.core.spec import WorkloadSpec
from perfkit_reports.subjects.suite.suite_cells import make_peak_memory_cell, make_speed_up_cell
from perfkit_reports.subjects.suite.suite_headline import build_headline, find_leanest
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import claim, record, spec, write_suite

OTHER_DATA = ParityRule(relative=None, basis="batches of another size are other data")


def peaks(allocated: float) -> MemoryPeaks:
    no = Unknown(reason="not on a CPU")
    return MemoryPeaks(allocated=make_measurement(allocated, "bytes", "allocator"), reserved=no, driver_used=no, rss=no)


def big(step_s: float, units: int, **more):
    return record(
        step_s,
        workload=WorkloadFacts(unit="samples", units_per_batch=units, parameters=100),
        parity=OTHER_DATA,
        claims=(claim("batch_size", Relation.EQUAL, float(units), technique="batch"),),
        facts={"batch_size": float(units)},
        **more,
    )


def suite(folder: Path, ours, label: str = "batch:size=32"):
    base = [record(step, memory=peaks(800.0), facts={"batch_size": 8.0}) for step in (0.10, 0.11, 0.12, 0.11)]
    other = spec(label)
    other = type(other)(workload=WorkloadSpec(name="gpt", params={"batch_size": 32}), techniques=other.techniques)
    return analyze_suite(write_suite(folder, {"baseline": base, label: ours}, specs={label: other}))


def test_time_and_memory_of_another_batch_are_per_sample(tmp_path: Path) -> None:
    # Four times the samples in twice the time and three times the memory: half the time and 3/4 of the memory a sample.
    ours = [big(2 * step, 32, memory=peaks(2400.0)) for step in (0.10, 0.11, 0.12, 0.11)]
    analysis = suite(tmp_path, ours)
    baseline, variant = analysis.variants
    assert (baseline.comparison_unit, variant.comparison_unit) == ("", "sample")
    assert (baseline.units_per_step, variant.units_per_step) == (8, 32)
    assert variant.difference is not None
    assert variant.difference.ratio == pytest.approx(0.5)
    assert variant.difference.verdict == "faster"
    assert variant.cpu_difference is not None
    assert variant.cpu_difference.ratio == pytest.approx(0.5)
    assert variant.memory_ratio == pytest.approx(0.75)
    assert (variant.parity.verdict, variant.parity.basis) == ("not comparable", OTHER_DATA.basis)
    assert variant.active is True
    assert make_speed_up_cell(variant).detail.endswith("per sample")
    assert make_peak_memory_cell(variant).detail == "-25.0 % per sample"
    assert find_leanest(analysis) is None  # its peak is higher, whatever a sample takes of it
    assert {"25 %"} <= {*list_figures(build_headline(analysis))}
    (gain,) = (finding for finding in analysis.findings if finding.id == "variant.faster")
    assert (gain.variant, gain.figures["ratio"]) == ("batch:size=32", pytest.approx(0.5))
    assert "per sample" in gain.title
    assert (gain.gain_s, gain.gain_bytes) == (None, None)


def test_a_larger_batch_at_the_same_rate_makes_no_difference(tmp_path: Path) -> None:
    ours = [big(4 * step, 32) for step in (0.10, 0.11, 0.12, 0.11)]
    _, variant = suite(tmp_path, ours).variants
    assert variant.difference is not None
    assert variant.difference.ratio == pytest.approx(1.0)
    assert variant.difference.verdict == "no difference"


def test_batches_of_unknown_size_are_not_compared(tmp_path: Path) -> None:
    ours = [big(0.2, 0) for _ in range(3)]
    _, variant = suite(tmp_path, ours).variants
    assert variant.difference is None
    assert variant.memory_ratio is None


def test_a_technique_that_trains_on_the_same_data_still_has_to_show_it(tmp_path: Path) -> None:
    ours = [record(0.2, parity=ParityRule(relative=1e-5, basis="lossless")) for _ in range(3)]
    _, variant = suite(tmp_path, ours, "amp").variants
    assert variant.parity.verdict == "unknown"
    assert "different data" in variant.parity.basis
