"""A technique that a device only emulates is credited with nothing, however it comes out."""

from pathlib import Path

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.claim import Relation
from perfkit_reports.subjects.suite import suite_cells, suite_headline
from tests.fixtures.suites import claim, record, write_suite

ACTS = (claim("backward_passes", Relation.EQUAL, 1),)
WHY = "a cpu device has no fp8 products"


def two_variants(folder: Path, **facts: float):
    ran = record(0.1, claims=ACTS, facts={"backward_passes": 1.0, **facts}, fact_notes={"emulated": WHY})
    return analyze_suite(write_suite(folder, {"baseline": [record(0.2)] * 3, "fp8": [ran] * 3}))


def test_nothing_is_compared_and_the_speed_up_says_why(tmp_path: Path) -> None:
    analysis = two_variants(tmp_path, emulated=1.0)
    variant = analysis.variants[1]
    assert variant.active is True
    assert isinstance(variant.step_time, MedianEstimate)
    assert (variant.emulation_reason, variant.difference, variant.cpu_difference, variant.memory_ratio) == (
        WHY,
        *[None] * 3,
    )
    assert (suite_cells.make_speed_up_cell(variant).text, suite_cells.make_speed_up_cell(variant).reason) == (
        "emulated",
        WHY,
    )
    assert suite_cells.make_marked_speed_up_cell(variant).text == "emulated"
    assert suite_headline.find_fastest(analysis) is None
    assert suite_headline.find_leanest(analysis) is None
    assert not any(finding.variant == "fp8" and finding.severity == "gain" for finding in analysis.findings)
    assert suite_headline.build_headline(analysis).endswith(f": {WHY}.")


def test_what_compiling_saves_is_not_known_of_what_is_not_compared(tmp_path: Path) -> None:
    (_, variant) = two_variants(tmp_path, emulated=1.0, graphs=1.0, compile_s=10.0).variants
    assert variant.compile is not None
    assert variant.compile.break_even_step is None
    assert variant.compile.break_even.startswith("unknown: ")


def test_without_emulation_the_same_is_compared(tmp_path: Path) -> None:
    analysis = two_variants(tmp_path)
    variant = analysis.variants[1]
    assert variant.emulation_reason == ""
    assert variant.difference is not None
    assert variant.difference.ratio == 0.5
