"""The sentence on a loop that perfkit was attached to."""

import msgspec

from perfkit.analysis.model import time_split
from perfkit.analysis.model.step import TimeShare
from perfkit_reports.subjects.loop.loop_headline import build_headline
from tests.fixtures import sample_loops
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import row


def test_without_ceilings_the_longest_ops_are_named_and_no_missing_model() -> None:
    (variant,) = sample_loops.alone().variants
    assert variant.trace is not None
    parts = {time_split.NO_CEILING: 0.6, time_split.NO_ESTIMATE: 0.28, time_split.PYTHON: 0.12}
    split = tuple(TimeShare(category=name, seconds=share, share=share) for name, share in parts.items())
    ops = (row("aten::addmm", 0.5, share=0.5), row("aten::mm", 0.3, share=0.3), row("aten::add", 0.1, share=0.1))
    trace = msgspec.structs.replace(variant.trace, ceilings=None, device="cpu", time_split=split, ops=ops)
    told = build_headline(msgspec.structs.replace(variant, trace=trace))
    assert list_figures(told.partition("traced")[2]) == ["88 %", "50 %", "30 %", "12 %"]
    assert "aten::addmm (50 %) and aten::mm (30 %)" in told
