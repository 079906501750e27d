"""The table of sequence lengths, and the sentence on running out of memory."""

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Plan, PlannedLength
from perfkit_reports.subjects.plan.plan_document import build_document
from perfkit_reports.subjects.plan.plan_lengths import list_expected_failures
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column


def plan(share: Interval | None) -> Plan:
    made = sample.realistic()
    needed = Interval(value=sample.MIB, low=sample.MIB, high=sample.MIB)
    lengths = (
        PlannedLength(tokens=512, batch_share=0.999, step_share=0.996, needed=needed, fit="fits"),
        PlannedLength(tokens=4096, batch_share=0.001, step_share=0.004, needed=needed, fit="does not fit"),
    )
    return replace(made, variants=(replace(made.variants[1], lengths=lengths, exceeding_share=share),))


def test_a_row_says_how_often_a_length_occurs() -> None:
    table = blocks(build_document(plan(None)))["lengths"]
    assert column(table, "Longest sequence") == ["512", "4,096"]
    assert column(table, "Once in") == ["every step", "250 steps"]
    assert "lengths" not in blocks(build_document(sample.realistic()))


@pytest.mark.parametrize(
    ("low", "high", "figures"),
    [(0.004, 0.004, ["4,096", "250"]), (0.004, 0.008, ["125", "250"]), (0.0, 0.008, ["125"])],
)
def test_when_memory_runs_out_is_said(low: float, high: float, figures: list[str]) -> None:
    (sentence,) = list_expected_failures(plan(Interval(value=high, low=low, high=high)))
    assert all(figure in sentence for figure in figures)
    assert not [*list_expected_failures(plan(Interval(value=0, low=0, high=0)))]
