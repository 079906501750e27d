"""Where more ranks lose, and what grows."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import COMMUNICATION, COMPUTE_BOUND
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.findings.scaling import find_efficiency_loss
from perfkit.analysis.suite.findings.suite_view import SuiteView
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import rank_trace
from tests.fixtures.scaled_suites import Steps, scaled_suite

STEPS: Steps = {
    "baseline": [1.0, 1.01, 0.99],
    "baseline@2": [1.02, 1.03, 1.01],
    "baseline@4": [2.0, 2.02, 1.98],
    "baseline@8": [4.0, 4.02, 3.98],
}


def found(folder: Path, steps: Steps = STEPS, cores: int = 64, **exposed: float) -> list[Finding]:
    analysis = analyze_suite(scaled_suite(folder, steps, cores=cores))

    def split(share: float) -> tuple[TimeShare, ...]:
        parts = {COMMUNICATION: share, COMPUTE_BOUND: 1 - share}
        return tuple(TimeShare(category=name, seconds=part, share=part) for name, part in parts.items())

    variants = [
        replace(each, trace=rank_trace(time_split=split(exposed[f"on{each.world_size}"])))
        if f"on{each.world_size}" in exposed
        else each
        for each in analysis.variants
    ]
    return list(find_efficiency_loss(SuiteView(tuple(variants), None, None, scaling=analysis.scaling)))


def test_where_efficiency_falls_is_told_once_with_what_grew(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, on1=0.0, on4=0.4)
    assert (finding.id, finding.variant) == ("scaling.efficiency_loss", "baseline@4")
    assert (finding.figures["efficiency"], finding.figures["ranks"]) == (pytest.approx(0.5, rel=0.01), 4)
    assert finding.figures["low"] < 0.5 < finding.figures["high"] < 0.9
    assert "25 % on 8" in finding.title
    assert COMMUNICATION in finding.evidence
    assert "0 % to 40 %" in finding.evidence
    assert "3 and 3 processes" in finding.evidence
    assert "ddp:hook=" in finding.action


def test_cores_that_are_shared_come_first(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, cores=2)
    assert "ddp:hook=" not in finding.action
    assert {"8", "1", "2"} <= {*list_figures(finding.details[0])}


def test_what_is_not_shown_to_fall_is_not_told(tmp_path: Path) -> None:
    assert found(tmp_path / "even", {"baseline": [1.0, 1.01], "baseline@2": [1.01, 1.02]}) == []
    assert found(tmp_path / "noisy", {"baseline": [1.0, 2.0], "baseline@2": [2.0, 4.0]}) == []
    assert found(tmp_path / "one", {"baseline": [1.0], "baseline@2": [2.0]}) == []
