import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.allocations import InitialBlock, build_allocations
from perfkit.core.record.claim import ParityRule, Relation
from perfkit.core.record.quantity import Unknown, get_value
from perfkit.core.record.rank_record import Flops, RunStatus, WorkloadFacts
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.memory_file import write_allocations
from perfkit_cli.bench import _get_exit_code
from perfkit_reports.subjects.suite.suite_cells import make_loss_cell
from perfkit_reports.subjects.suite.suite_headline import list_remarks
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import (
    CEILINGS,
    claim,
    counted,
    record,
    spec,
    write_run,
    write_suite,
    write_suite_file,
)
from tests.fixtures.traces import mark, op, write_trace

ACTS = claim("optimizer_state_bytes", Relation.EQUAL, 0.5, relative_to="baseline", technique="zero1")


def variant(analysis: Analysis, name: str) -> Variant:
    return next(each for each in analysis.variants if each.name == name)


def known(value: object) -> float:
    assert isinstance(value, MedianEstimate)
    return value.value


def test_the_figures_of_a_suite_by_hand(tmp_path: Path) -> None:
    base = [record(step, losses=(4.0, 2.0, 1.0)) for step in (0.10, 0.12, 0.11)]
    fast = [
        record(step, losses=(4.0, 2.0, 1.001), parity=ParityRule(relative=0.01, basis="bf16"))
        for step in (0.05, 0.06, 0.055)
    ]
    analysis = analyze_suite(write_suite(tmp_path, {"baseline": base, "amp": fast}))
    baseline, amp = analysis.variants
    assert (baseline.is_baseline, amp.is_baseline) == (True, False)
    assert known(baseline.step_time) == pytest.approx(0.11)
    assert known(baseline.cpu_time) == pytest.approx(0.22)
    assert known(baseline.throughput) == pytest.approx(8 / 0.11)
    assert baseline.throughput_unit == "samples/s"
    assert amp.difference.ratio == pytest.approx(0.5)
    assert (amp.difference.verdict, amp.difference.pairs) == ("faster", 3)
    assert amp.cpu_difference.ratio == pytest.approx(0.5)
    assert (amp.parity.verdict, amp.parity.max_relative) == ("within tolerance", pytest.approx(0.001))
    assert baseline.parity.verdict == "equal"
    # 2 GFLOP in 0.11 s over the 100 GFLOP/s of the fixture's ceilings
    assert get_value(baseline.mfu) == pytest.approx(2e9 / 0.11 / 1e11)
    assert baseline.step_samples == ((0.10,) * 4, (0.12,) * 4, (0.11,) * 4)
    assert analysis.title.split(" on ") == ["gpt", "Test CPU"]


def test_a_step_faster_than_the_measured_ceiling_takes_it_from_every_variant(tmp_path: Path) -> None:
    low = replace(CEILINGS, ceilings=tuple(replace(each, value=each.value / 10) for each in CEILINGS.ceilings))
    bf16 = Flops(model=counted(1e9), hardware=counted(1e9), by_dtype={"bf16": 1e9})
    runs = {"baseline": [record(0.11)], "slow": [record(0.4)], "amp": [record(0.1, flops=bf16)]}
    analysis = analyze_suite(write_suite(tmp_path, runs, ceilings=low))
    # 2 GFLOP in 0.11 s are 180 % of it; in 0.4 s they would be 50 %, of what is known to be none.
    for unknown in (share for each in analysis.variants[:2] for share in (each.mfu, each.hfu)):
        assert isinstance(unknown, Unknown)
        assert "fp32 matrix" in unknown.reason
        assert "10.0 GFLOP/s" in unknown.reason
        assert "`perfkit calibrate --device cpu --threads 2 --force`" in unknown.reason
    assert get_value(analysis.variants[2].mfu) == pytest.approx(0.5)  # that of bf16 is another
    assert analysis.ceilings is not None
    assert [each.dtype for each in analysis.ceilings.ceilings if each.exceeded_by] == ["fp32"]
    (finding,) = (each for each in analysis.findings if each.id == "limit.exceeded_ceilings")
    assert "fp32 matrix" in finding.title
    assert "`perfkit calibrate --device cpu --threads 2 --force`" in finding.action


def test_mfu_is_over_the_mix_of_what_was_counted(tmp_path: Path) -> None:
    mixed = Flops(model=counted(2e9), hardware=counted(2e9), by_dtype={"bf16": 0.5e9, "fp32": 1.5e9})
    (baseline,) = analyze_suite(write_suite(tmp_path, {"baseline": [record(0.1, flops=mixed)]})).variants
    # 0.5 GFLOP at the fixture's 2e11 FLOP/s of bf16, 1.5 at 1e11 of fp32: 17.5 ms of 100.
    assert get_value(baseline.mfu) == pytest.approx(0.175)


def test_the_steps_median_counts_not_their_mean(tmp_path: Path) -> None:
    analysis = analyze_suite(write_suite(tmp_path, {"baseline": [record((0.1, 0.1, 0.1, 9.0))]}))
    assert known(analysis.variants[0].step_time) == pytest.approx(0.1)


def two_ranks(slow: float, state: float, **more) -> list:
    return [
        record(step, rank=rank, world_size=2, facts={"optimizer_state_bytes": state}, **more)
        for rank, step in enumerate((0.1, slow))
    ]


def test_over_ranks_time_is_the_slowest_throughput_adds_up_and_claims_meet_the_baseline(tmp_path: Path) -> None:
    plain, sharded = spec(world_size=2, accumulation=3), spec("zero1", world_size=2, accumulation=3)
    ok = RunResult(status=RunStatus.OK)
    runs = [
        write_run(tmp_path, plain, 0, two_ranks(0.2, 1000.0), ok),
        write_run(tmp_path, sharded, 0, two_ranks(0.4, 500.0, claims=(ACTS,)), ok),
    ]
    write_suite_file(tmp_path, ["baseline@2", "zero1@2"], runs, {"baseline@2": "baseline@2", "zero1@2": "baseline@2"})
    analysis = analyze_suite(tmp_path)
    baseline, zero1 = analysis.variants
    assert (baseline.is_baseline, zero1.is_baseline, zero1.world_size) == (True, False, 2)
    assert known(zero1.step_time) == pytest.approx(0.4)
    assert known(zero1.throughput) == pytest.approx(2 * 3 * 8 / 0.4)
    assert get_value(zero1.model_flops) == 4e9
    assert zero1.active is True
    assert (zero1.difference.ratio, zero1.difference.verdict) == (pytest.approx(2.0), "inconclusive")
    assert zero1.parity.verdict == "equal"


def test_a_failed_claim_is_never_shown_as_engaged(tmp_path: Path) -> None:
    idle = record(0.01, claims=(claim("world_size", Relation.AT_LEAST, 2),))
    analysis = analyze_suite(write_suite(tmp_path, {"baseline": [record(), record()], "amp": [idle, idle]}))
    assert variant(analysis, "amp").active is False
    assert "amp" not in analysis.pareto
    warnings = [finding for finding in analysis.findings if finding.variant == "amp"]
    assert [finding.severity for finding in warnings] == ["warning"]
    assert warnings[0].id == "claim.not_active"


def test_statuses_are_results_and_keep_what_was_measured(tmp_path: Path) -> None:
    oom = record(status=RunStatus.OUT_OF_MEMORY, reason="at step 3", samples=StepSamples(), losses=(), flops=None)
    failed = record(status=RunStatus.FAILED, reason="ValueError", traceback="Traceback ...", samples=StepSamples())
    analysis = analyze_suite(
        write_suite(tmp_path, {"baseline": [record()], "amp": [oom], "ckpt": [record(0.2), failed], "flash": [None]})
    )
    amp, ckpt, flash = analysis.variants[1:]
    assert (amp.status, amp.reason) == (RunStatus.OUT_OF_MEMORY, "at step 3")
    assert isinstance(amp.step_time, MissingEstimate)
    assert amp.step_time.reason.endswith(": at step 3")
    assert amp.difference is None
    assert (ckpt.status, ckpt.reason) == (RunStatus.FAILED, "process 2 of 2: ValueError")
    assert ckpt.traceback == "Traceback ..."
    assert known(ckpt.step_time) == pytest.approx(0.2)
    assert (flash.status, flash.reason.startswith("the worker")) == (RunStatus.CRASHED, True)
    assert isinstance(flash.peak_allocated, Unknown)
    assert [each.variant for each in analysis.findings if each.id == "variant.out_of_memory"] == ["amp"]


def test_a_baseline_that_trains_nothing_is_a_finding_and_makes_the_bench_fail(tmp_path: Path) -> None:
    broken = record(losses=(3.0, None, None))
    found = analyze_suite(write_suite(tmp_path, {"baseline": [broken], "amp": [record()]}))
    baseline = variant(found, "baseline")
    assert (baseline.parity.verdict, baseline.parity.not_finite_step) == ("differs", 2)
    finding = next(finding for finding in found.findings if finding.variant == "baseline")
    assert (finding.id, finding.figures) == ("loss.not_finite", {"step": 2})
    assert _get_exit_code(found) == 1
    assert _get_exit_code(analyze_suite(write_suite(tmp_path / "b", {"baseline": [record()]}))) == 0
    assert make_loss_cell(baseline).text == "differs"
    assert any("infinite" in remark and "baseline" in remark for remark in list_remarks(found))


def test_variants_that_were_never_run_are_interrupted(tmp_path: Path) -> None:
    run = write_run(tmp_path, spec(), 0, [record()], RunResult(status=RunStatus.OK))
    write_suite_file(tmp_path, ["baseline", "amp+ckpt"], [run])
    amp = variant(analyze_suite(tmp_path), "amp+ckpt")
    assert (amp.status, amp.techniques) == (RunStatus.INTERRUPTED, ("amp", "ckpt"))
    assert "before this variant" in amp.reason


def test_an_interruption_takes_nothing_from_the_repeats_before_it(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path, spec(), 0, [record(0.1)], RunResult(status=RunStatus.OK)),
        write_run(tmp_path, spec(), 1, [record(0.3)], run=None),
    ]
    write_suite_file(tmp_path, ["baseline"], runs)
    assert analyze_suite(tmp_path).variants[0].status == RunStatus.OK


def test_a_skipped_variant_is_no_baseline(tmp_path: Path) -> None:
    skipped = record(
        status=RunStatus.SKIPPED, reason="needs a device", samples=StepSamples(), losses=(), environment=None
    )
    analysis = analyze_suite(write_suite(tmp_path, {"baseline": [record()], "offload": [skipped]}, baselines={}))
    offload = variant(analysis, "offload")
    assert (offload.status, offload.is_baseline, offload.active) == (RunStatus.SKIPPED, False, None)
    assert variant(analysis, "baseline").is_baseline


def test_every_optional_part_may_be_missing(tmp_path: Path) -> None:
    bare = record(environment=None, workload=None, flops=None, memory=None, losses=(), facts={})
    analysis = analyze_suite(write_suite(tmp_path, {"baseline": [bare], "amp": [bare]}, ceilings=None))
    amp = variant(analysis, "amp")
    assert isinstance(amp.mfu, Unknown)
    assert isinstance(amp.throughput, MissingEstimate)
    assert (amp.memory, amp.time_split, amp.points, amp.ops, amp.compile) == (None, (), (), (), None)
    assert analysis.environment is None


def test_the_main_run_is_the_one_with_the_instrumented_passes(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path, spec(passes=()), 0, [record(facts={})], RunResult(status=RunStatus.OK)),
        write_run(
            tmp_path,
            spec(),
            1,
            [record(flops=Flops(model=counted(7), hardware=counted(9)))],
            RunResult(status=RunStatus.OK),
        ),
    ]
    write_suite_file(tmp_path, ["baseline"], runs)
    assert analyze_suite(tmp_path).variants[0].hardware_flops == counted(9)


def test_trace_and_memory_reach_the_variant(tmp_path: Path) -> None:
    share = claim("op_calls:aten::mm", Relation.AT_LEAST, 1)
    weight = InitialBlock(address=1, size_bytes=100, category="parameter", name="weight")
    folder = write_suite(tmp_path, {"baseline": [record()], "amp": [record(claims=(share,))]})
    marks = [mark("perfkit::step#0", 0, 100), mark("perfkit::forward", 0, 100)]
    ran = {"baseline": op("aten::relu", 10, 50, [(9, 9)]), "amp": op("aten::mm", 10, 50, [(9, 9), (9, 9)])}
    for name in ("baseline", "amp"):
        rank = folder / name / "0" / "rank0"
        write_trace(rank / "trace.json.gz", [*marks, ran[name]])
        grown = 300 if name == "baseline" else 100
        events_of_step = build_allocations(device="cpu", source="by hand", known=(weight,), address=[5], size=[grown])
        write_allocations(rank / "memory.parquet", events_of_step)
    amp = variant(analyze_suite(folder), "amp")
    assert amp.active is True
    assert amp.traced_step.step_s == pytest.approx(0.1)  # as it was timed; 100 us were traced
    assert amp.traced_step.timed_ratio == pytest.approx(1000)
    assert amp.memory.peak_bytes == 200
    assert amp.memory_ratio == pytest.approx(0.5)
    shutil.rmtree(folder / "amp" / "0" / "rank0")
    assert analyze_suite(folder).variants[1].active is None


def test_an_analysis_survives_its_own_json(tmp_path: Path) -> None:
    nan = record(
        losses=(1.0, float("nan"), 2.0), workload=WorkloadFacts(unit="tokens", units_per_batch=8, parameters=1)
    )
    analysis = analyze_suite(write_suite(tmp_path, {"baseline": [record()], "amp": [nan]}))
    assert msgspec.json.decode(msgspec.json.encode(analysis), type=Analysis) == analysis
    assert variant(analysis, "amp").parity.verdict == "differs"


def test_processes_are_counted_from_1_in_warnings_too(tmp_path: Path) -> None:
    pair = spec(world_size=2)
    both = [record(0.1, rank=rank, world_size=2) for rank in (0, 1)]
    ranks = (both, both[:1])
    entries = [
        write_run(tmp_path, pair, repeat, made, RunResult(status=RunStatus.OK)) for repeat, made in enumerate(ranks)
    ]
    write_suite_file(tmp_path, [pair.variant], entries)
    (only,) = analyze_suite(tmp_path).variants
    (warning,) = (note for note in only.warnings if note.id == "run.missing_ranks")
    assert (warning.figures, {"2", "1"} <= {*list_figures(warning.text)}) == ({"missing": 1}, True)
