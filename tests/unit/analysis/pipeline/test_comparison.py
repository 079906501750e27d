"""Runs of any kind against the first of them."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.compare.compared_figures import WATCHED_STEP
from perfkit.analysis.model.comparison import ComparedAmount, Comparison
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.analysis.pipeline.stored_results import read_comparison
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.spec import WorkloadSpec
from perfkit.store.summary import COMPARISON_FILE, TRACE_REPORT_FILE
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.suites import ENVIRONMENT, changed, record, spec, write_suite
from tests.fixtures.view_folder import live_suite, start, windows


def bench(folder: Path, step_s: float, **environment: object) -> Path:
    there = changed(ENVIRONMENT, **environment)
    return write_suite(folder, {"baseline": [record(step_s * share, environment=there) for share in (1.0, 1.01, 0.99)]})


def figure(comparison: Comparison, title: str) -> tuple[ComparedAmount, ...]:
    return next(each.amounts for each in comparison.figures if each.title == title)


def test_two_benchmarks(tmp_path: Path) -> None:
    found = compare_runs([bench(tmp_path / "a", 0.1), bench(tmp_path / "b", 0.2)])
    assert [side.name for side in found.sides] == ["a", "b"]
    first, other = figure(found, "Step time")
    assert (first.value, other.value) == (pytest.approx(0.1), pytest.approx(0.2))
    assert first.low is not None
    assert other.low is not None
    assert [amount.value for amount in figure(found, "Throughput")] == [pytest.approx(80.0), pytest.approx(40.0)]
    assert next(each.unit for each in found.figures if each.title == "Throughput") == "samples/s"
    assert (found.warnings, found.environment_mismatches, found.differences) == ((), (), ())
    assert "Energy per step" not in [each.title for each in found.figures], "what nobody knows is left out"


def test_variants_of_one_suite_are_named_with_it(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", {"baseline": [record(0.1)], "amp": [record(0.05)]})
    found = compare_runs([f"{suite}@baseline", f"{suite}@amp"])
    assert [(side.name, side.subject) for side in found.sides] == [("suite@baseline", "baseline"), ("suite@amp", "amp")]
    assert [amount.value for amount in figure(found, "Step time")] == [0.1, 0.05]
    assert compare_runs([suite, suite]).sides[1].name == "suite@baseline (2)", "without one its baseline is meant"
    with pytest.raises(UsageError, match=r"'apm'.*'amp'"):
        compare_runs([suite, f"{suite}@apm"])


def test_a_trace_a_report_on_one_and_a_benchmark(tmp_path: Path) -> None:
    before, after = training_file(tmp_path / "before.json"), training_file(tmp_path / "after.json", slower=1.5)
    report = tmp_path / "report"
    write_json(report / TRACE_REPORT_FILE, analyze_traces(str(after)))
    found = compare_runs([before, report, bench(tmp_path / "bench", 0.1)], anyway=True)
    assert [side.kind for side in found.sides] == ["trace", "trace", "suite"]
    (difference,) = found.differences
    assert (difference.before, difference.after) == ("before.json", "report")
    assert max(difference.changes, key=lambda row: row.change_s).name == "aten::mm"
    assert difference.before_trace.ops == (), "the trace itself is among the sides"
    step, traced = figure(found, "Step time"), figure(found, "Traced step")
    assert [amount.value is None for amount in step] == [True, True, False]
    assert [amount.value is None for amount in traced] == [False, False, True]
    assert "perfkit bench" in step[0].reason


def test_other_kinds_of_devices_are_refused_with_the_key(tmp_path: Path) -> None:
    runs = [bench(tmp_path / "cpu", 0.1), bench(tmp_path / "gpu", 0.1, device="cuda")]
    with pytest.raises(UsageError, match=r"^gpu .*\(device: cpu -> cuda\)"):
        compare_runs(runs)
    assert "device: cpu -> cuda" in compare_runs(runs, anyway=True).warnings[0].text
    rocm = [bench(tmp_path / "amd", 0.1, device="rocm"), runs[1]]
    assert "device: rocm -> cuda" in compare_runs(rocm).warnings[0].text, "GPUs of two makers can be compared"


def test_other_libraries_and_workloads_are_told_by_their_keys(tmp_path: Path) -> None:
    other = changed(spec("baseline"), workload=WorkloadSpec(name="gpt", params={"size": "small"}))
    there = changed(ENVIRONMENT, torch="2.14.0", platform="Other")
    second = write_suite(tmp_path / "b", {"baseline": [record(0.1, environment=there)]}, specs={"baseline": other})
    found = compare_runs([bench(tmp_path / "a", 0.1), second])
    assert [
        (each.key, each.first_value, each.run_value, each.affects_times) for each in found.environment_mismatches
    ] == [
        ("workload", "gpt", "gpt:size=small", True),
        ("torch", "2.13.0", "2.14.0", True),
        ("platform", "Linux", "Other", False),
    ]
    (warning,) = found.warnings
    assert warning.id == "comparison.conditions"
    assert "workload: gpt -> gpt:size=small; torch: 2.13.0 -> 2.14.0" in warning.text
    assert "platform" not in warning.text


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    suite = bench(tmp_path / "a", 0.1)
    write_json(tmp_path / "compared" / COMPARISON_FILE, compare_runs([suite, suite]))
    for wrong, why in (
        ([suite], r"\b2 .*\b8 runs"),
        ([suite, tmp_path / "none"], "none: "),
        ([suite, tmp_path / "compared"], r"compared\b.*comparison"),
        ([suite, f"{training_file(tmp_path / 'trace.json')}@amp"], "@amp"),
    ):
        with pytest.raises(UsageError, match=why):
            compare_runs(wrong)


def test_it_is_read_back_as_it_was(tmp_path: Path) -> None:
    found = compare_runs([training_file(tmp_path / "a.json"), training_file(tmp_path / "b.json", slower=1.2)])
    write_json(tmp_path / "out" / COMPARISON_FILE, found)
    assert read_comparison(tmp_path / "out") == found
    assert msgspec.json.decode(msgspec.json.encode(found), type=Comparison) == found


def test_jobs_that_still_run_are_compared_by_their_live_logs(tmp_path: Path) -> None:
    jobs = [
        live_suite(tmp_path / name, lines=[start(), *windows(9, step_s=step_s)])
        for name, step_s in (("a", 0.02), ("b", 0.04))
    ]
    found = compare_runs(jobs)
    first, other = figure(found, WATCHED_STEP)
    assert first.value == pytest.approx(0.02, rel=0.03)
    assert other.value == pytest.approx(0.04, rel=0.03)
    assert [len(side.live) for side in found.sides] == [9, 9]
    assert [point.last_step for point in found.sides[0].live][:2] == [50, 100]
