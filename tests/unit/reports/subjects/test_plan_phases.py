"""The table of evaluation and checkpoints, and the sentence where one of them is too large."""

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Plan, PlannedPhase
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan.plan_document import build_document
from perfkit_reports.subjects.plan.plan_phases import list_larger_phases
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column

MIB = sample.MIB


def phase(name: str, size: int, fit: str, seconds: float | None = None) -> PlannedPhase:
    time = None if seconds is None else Interval(value=seconds, low=seconds, high=seconds)
    needed = Interval(value=size * MIB, low=size * MIB, high=size * MIB)
    return PlannedPhase(phase=name, needed=needed, fit=fit, seconds=time, time_reason="no disk", host_bytes=3 * MIB)  # type: ignore[arg-type]


def plan(*phases: PlannedPhase) -> Plan:
    made = sample.realistic()
    amp = made.variants[1]  # needs 1.12 GiB
    return replace(made, variants=(replace(amp, phases=phases),))


def test_a_row_has_memory_fit_and_time() -> None:
    document = build_document(plan(phase("evaluation", 300, "fits", 0.5), phase("checkpoint_full", 200, "fits")))
    table = blocks(document)["phases"]
    assert column(table, "Needed") == ["300 MiB", "200 MiB"]
    assert column(table, "Fits") == ["fits", "fits"]
    assert column(table, "Main memory") == ["3.00 MiB", "3.00 MiB"]
    assert column(table, "Time") == ["500 ms", "n/a"]
    assert table.weight is Weight.BRIEF
    assert "phases" not in blocks(build_document(plan()))


def test_what_needs_more_than_the_step_and_does_not_fit_is_said() -> None:
    found = plan(phase("evaluation", 300, "fits"), phase("evaluation_kept", 5000, "does not fit"),
                 phase("checkpoint_full", 900, "does not fit"))  # fmt: skip
    (sentence,) = list_larger_phases(found)
    assert "4.88 GiB" in sentence
    assert "amp" in sentence
