"""Packed and padded rows of a plan: the table, and the sentence that compares them."""

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Packing, Plan
from perfkit_reports.subjects.plan.plan_document import build_document
from perfkit_reports.subjects.plan.plan_packing import list_gains
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column


def plan() -> Plan:
    made = sample.realistic()
    packing = Packing(
        row_tokens=4096,
        fill=0.96,
        attention="documents",
        padded_tokens=1024,
        padded_fill=0.4,
        padded_step_s=Interval(value=0.1, low=0.1, high=0.1),
        padded_units_per_step=500.0,
        padded_needed=Interval(value=sample.GIB, low=sample.GIB, high=sample.GIB),
    )
    amp = replace(made.variants[1], packing=packing, units_per_step=1400.0)  # 0.14 s a step
    return replace(made, variants=(amp,))


def test_both_have_their_tokens_that_train() -> None:
    table = blocks(build_document(plan()))["packing"]
    assert column(table, "Training tokens") == ["96 %", "40 %"]
    assert column(table, "Trained tokens/s") == ["10,000", "5,000"]
    assert column(table, "Needed") == ["1.12 GiB", "1.00 GiB"]
    assert column(table, "Step time") == ["140 ms", "100 ms"]
    assert "packing" not in blocks(build_document(sample.realistic()))


def test_the_gain_recomputes_from_the_rows() -> None:
    (gain,) = list_gains(plan())
    assert "2.00" in gain
