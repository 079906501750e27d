"""Convolutions of a CPU that convert memory formats."""

import pytest

from perfkit.analysis.model.trace import LayoutCopies
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.devices.ceilings.ceiling import CeilingLevel
from tests.fixtures.rank_traces import ceilings, rank_trace


def _find_range(seconds: float) -> tuple[float | None, float | None] | None:
    copies = LayoutCopies(copies=6.0, seconds=seconds, convolutions_s=0.4, flops=1e10)
    peak = ceilings({(CeilingLevel.MATRIX, "fp32"): 1e11})
    trace = rank_trace(device="cpu", launches=None, layout_copies=copies, ceilings=peak)
    found = collect_trace_findings((trace,), None, None)
    return next(
        ((gain.low, gain.high) for one in found if one.id == "convolution.transposes" for gain in one.gains), None
    )


def test_at_most_the_convolutions_above_their_peak() -> None:
    assert _find_range(0.2) == (0.0, pytest.approx(0.3))


def test_few_copies_are_none() -> None:
    assert _find_range(0.04) is None
