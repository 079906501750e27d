"""The table of phases, and the sentences about the one that decides whether a variant fits."""

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Plan, PlannedPhase
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan.plan_document import build_document
from perfkit_reports.subjects.plan.plan_phases import describe_misfit, list_deciding_phases
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


def test_the_phase_that_needs_most_is_named() -> None:
    found = plan(phase("step", 1147, "fits"), phase("evaluation_kept", 5000, "does not fit"))
    (amp,) = found.variants
    amp = replace(amp, deciding_phase="evaluation_kept", fit="fits")
    (sentence,) = list_deciding_phases(replace(found, variants=(amp,)))
    assert "4.88 GiB" in sentence
    assert "amp" in sentence
    assert describe_misfit(amp) in build_document(replace(found, variants=(amp,))).headline
    steps = replace(amp, deciding_phase="step")
    assert not [*list_deciding_phases(replace(found, variants=(steps,)))]


def test_a_phase_that_fits_as_the_step_does_is_not_in_the_headline() -> None:
    (amp,) = plan(phase("step", 1147, "fits"), phase("evaluation", 5000, "fits")).variants
    assert describe_misfit(replace(amp, deciding_phase="evaluation", fit="fits")) == ""
