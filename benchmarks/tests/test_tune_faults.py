"""The planted faults: each is planted, ten of them are named, and their clean twins are left alone."""

from pathlib import Path

import pytest

from benchmarks.tune.fault import PROGRAMS, Fault, plant
from benchmarks.tune.faults import FAULTS
from benchmarks.tune.judge import judge_fault, list_false_alarms
from benchmarks.tune.lockstep import TrueGain
from benchmarks.tune.recorded_findings import FindingsOfRun, NamedFinding, analyze_recording, record_script
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS

# Their figures are far from the thresholds, whatever else the machine does.
CERTAIN = (
    "anomaly_detection",
    "backward_twice",
    "checkpointed_blocks",
    "collected_each_step",
    "forward_twice",
    "fp64_table",
    "inverse_for_solve",
    "loop_over_samples",
    "one_hot_embedding",
    "update_of_each_parameter",
)
KNOWN = {kind.id for subject in SUBJECTS for kind in subject.kinds}
TENTH = TrueGain(share=0.1, low=0.09, high=0.11, faulty_s=1.0, clean_s=0.9, turns=20)


def run_with(*findings: tuple[str, float | None]) -> FindingsOfRun:
    return FindingsOfRun(
        step_s=1.0,
        findings=tuple(
            NamedFinding(id=name, severity="gain", expected=high, low=None if high is None else 0.0, high=high)
            for name, high in findings
        ),
    )


def test_sixty_faults_in_programs_that_are_here() -> None:
    assert len(FAULTS) == 60
    assert {fault.program for fault in FAULTS.values()} == {path.stem for path in PROGRAMS.glob("*.py")}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.id)
def test_a_fault_changes_its_program(fault: Fault) -> None:
    assert plant(fault) != (PROGRAMS / f"{fault.program}.py").read_text()


def test_faults_are_named_by_findings_that_exist_but_for_those_that_nothing_names() -> None:
    unnamed = {fault.id for fault in FAULTS.values() if KNOWN.isdisjoint(fault.named_by)}
    assert unnamed == {"critic_gradients_unused"}


def test_a_fault_is_first_if_only_general_gains_come_before_it() -> None:
    fault = FAULTS["fp64_table"]
    verdict = judge_fault(fault, run_with(("gemm.fp32", 0.5), ("dtype.fp64", 0.4), ("fill.zeros", 0.1)), TENTH)
    assert (verdict.place, verdict.first, verdict.within) == (2, True, True)
    verdict = judge_fault(fault, run_with(("fill.zeros", 0.5), ("dtype.fp64", 0.05)), TENTH)
    assert (verdict.place, verdict.first, verdict.within) == (2, False, False)
    assert judge_fault(fault, run_with(("fill.zeros", 0.5)), TENTH).place is None


def test_a_clean_program_may_have_general_and_small_gains() -> None:
    run = run_with(("gemm.fp32", 0.5), ("dtype.fp64", 0.04), ("fill.zeros", 0.2))
    assert [finding.id for finding in list_false_alarms(run, list(FAULTS.values()))] == ["fill.zeros"]


@pytest.mark.slow
@pytest.mark.parametrize("fault_id", CERTAIN)
def test_a_fault_is_named_and_its_twin_has_no_such_finding(fault_id: str, tmp_path: Path) -> None:
    fault = FAULTS[fault_id]
    faulty, clean = tmp_path / f"{fault_id}.py", PROGRAMS / f"{fault.program}.py"
    faulty.write_text(plant(fault))
    runs = {}
    for script in (faulty, clean):
        record_script(script, fault.arguments, tmp_path / f"run-{script.stem}", step_s=0.1)
        runs[script] = analyze_recording(tmp_path / f"run-{script.stem}")
    named = [finding for finding in runs[faulty].findings if finding.id in fault.named_by]
    assert named
    assert named[0].low is not None
    assert named[0].high is not None
    assert 0.0 <= named[0].low < named[0].high <= 1.1
    assert not {finding.id for finding in runs[clean].findings} & set(fault.named_by)
