"""Each rule on a suite made for it: what it says, and when it keeps silent."""

import re
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.estimate import Difference, MedianEstimate
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import MemoryAccount, MemoryGrowth, MemoryShare
from perfkit.analysis.model.step import LostKernels, OpRow, TimeShare
from perfkit.analysis.model.suite import Analysis, ClaimResult, CompileSummary, KeptCopies, Variant, WarmCompile
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.pipeline.suite_findings import collect_suite_findings
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.timed_traces import apply_timed_clock
from perfkit.core.allocations import FailedRequest
from perfkit.core.record.environment import Environment
from perfkit.core.record.quantity import make_measurement
from perfkit.core.record.rank_record import Recompilation, RunStatus
from perfkit.devices.ceilings.ceiling import Confidence, DeviceCeilings
from perfkit.store.layout import SuiteSampling
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import ceilings, rank_trace, row
from tests.fixtures.suites import CEILINGS, ENVIRONMENT, changed, record, write_suite

IDS = {kind.id for subject in SUBJECTS for kind in subject.kinds}


@pytest.fixture
def analysis(tmp_path: Path) -> Analysis:
    runs = {"baseline": [record(0.1), record(0.1)], "amp": [record(0.08), record(0.08)]}
    return analyze_suite(write_suite(tmp_path, runs))


def difference(verdict: str, ratio: float) -> Difference:
    return Difference(baseline="baseline", ratio=ratio, low=ratio, high=ratio, verdict=verdict, detectable=0.1, pairs=3)


def held(holds: bool | None) -> ClaimResult:
    return ClaimResult(
        technique="amp",
        statement="bf16",
        outcome="active" if holds else "not active",
        holds=holds,
        expected=1.0,
        measured=0.0,
        evidence="0 of 1",
        fact="op_calls:aten::mm",
    )


def told(
    analysis: Analysis,
    base: dict[str, Any] | None = None,
    ceilings: DeviceCeilings = CEILINGS,
    passes: dict[str, PassResults] | None = None,
    sampling: SuiteSampling | None = None,
    environment: Environment = ENVIRONMENT,
    **amp: Any,
) -> list[Finding]:
    """Findings of the suite with fields of its baseline and its variant replaced."""
    engaged: dict[str, Any] = {"active": True, "claims": (held(True),), "difference": difference("faster", 0.8)}
    variants: tuple[Variant, ...] = (
        changed(analysis.variants[0], **{"peak_allocated": make_measurement(1000, "bytes", "x"), **(base or {})}),
        changed(analysis.variants[1], **{"peak_allocated": make_measurement(1000, "bytes", "x"), **engaged, **amp}),
    )
    return list(collect_suite_findings(variants, environment, ceilings, passes, sampling))


def ids(found: list[Finding]) -> list[str]:
    return [finding.id for finding in found]


def of(found: list[Finding], finding_id: str) -> list[Finding]:
    """Those of a kind that exists."""
    assert finding_id in IDS
    return [finding for finding in found if finding.id == finding_id]


def test_a_technique_that_is_faster_pays(analysis: Analysis) -> None:
    (finding,) = told(analysis)
    assert (finding.severity, finding.id, finding.variant) == ("gain", "variant.faster", "amp")
    assert (finding.gain_s, finding.figures["ratio"]) == (pytest.approx(0.02), 0.8)
    assert (finding.figures["step_s"], finding.figures["baseline_step_s"]) == (0.08, 0.1)


def test_a_measured_gain_has_the_interval_of_the_runs(analysis: Analysis) -> None:
    wide = Difference(baseline="baseline", ratio=0.8, low=0.5, high=1.0, verdict="faster", detectable=0.1, pairs=3)
    (finding,) = told(analysis, difference=wide)
    time, memory = finding.gains
    assert (time.low, time.high, time.basis) == (pytest.approx(0.0), pytest.approx(0.08), "measured")
    assert (memory.unit, memory.low, memory.high) == ("bytes", 0, 0)
    assert finding.confidence == "measured"
    assert finding.techniques == analysis.variants[1].techniques
    assert analysis.variants[1].verify.startswith("perfkit bench -w ")


@pytest.mark.parametrize("verdict", ["slower", "no difference"])
def test_a_technique_that_wins_nothing_is_a_finding_too(analysis: Analysis, verdict: str) -> None:
    (finding,) = told(analysis, difference=difference(verdict, 1.1), memory_ratio=1.0)
    assert (finding.severity, finding.id, finding.figures["ratio"]) == ("note", "variant.no_benefit", 1.1)
    assert finding.gain_s is None


def test_memory_saved_is_told_with_its_price(analysis: Analysis) -> None:
    saver = {"memory_ratio": 0.6, "peak_allocated": make_measurement(600, "bytes", "x")}
    (finding,) = told(analysis, difference=difference("slower", 1.2), **saver)
    assert finding.id == "variant.saves_memory"
    assert (finding.gain_bytes, finding.figures["ratio"]) == (400, 1.2)
    assert (finding.figures["peak_bytes"], finding.figures["baseline_peak_bytes"]) == (600, 1000)


def test_what_did_not_act_or_does_not_train_the_same_is_never_praised(analysis: Analysis) -> None:
    idle = told(analysis, active=False, claims=(held(False),))
    assert ids(idle) == ["claim.not_active"]
    undecided = told(analysis, active=None, claims=(held(None),))
    assert ids(undecided) == ["claim.undecided"]
    wrong = told(analysis, parity=changed(analysis.variants[1].parity, verdict="differs", max_relative=0.5))
    assert ids(wrong) == ["loss.parity_broken"]
    assert wrong[0].figures["relative"] == 0.5


@pytest.mark.parametrize(("steps", "found"), [(1, 1), (3, 1), (4, 0), (7, 0)])
def test_a_baseline_that_soon_leaves_its_own_losses_is_named(analysis: Analysis, steps: int, found: int) -> None:
    parity = changed(analysis.variants[1].parity, max_relative=1e-6, steps=steps, recorded_steps=7)
    notes = of(told(analysis, parity=parity), "loss.short_comparison")
    assert [note.variant for note in notes] == [analysis.variants[0].name] * found
    assert all(note.figures == {"steps": steps, "recorded_steps": 7} for note in notes)
    other = changed(parity, verdict="not comparable", max_relative=None)
    assert of(told(analysis, parity=other), "loss.short_comparison") == []


def test_a_technique_without_a_change_is_told_once(analysis: Analysis) -> None:
    already = changed(held(False), holds_in_baseline=True)
    idle = told(analysis, active=False, claims=(already, already), difference=difference("no difference", 1.0))
    assert ids(idle) == ["claim.already_true"]


@pytest.mark.parametrize(
    ("sampling", "more_pairs", "named"),
    [
        (None, None, ("--rounds 0",)),
        (SuiteSampling(rounds=2, seconds=60.0), None, ("--rounds", "--budget")),
        (
            SuiteSampling(precision=0.05, budget_s=300.0, rounds=10, seconds=290.0), 6,
            ("6 more rounds", "2 min 54 s", "5.0 %", "--budget 8min"),
        ),
        (SuiteSampling(precision=0.05, rounds=10, seconds=290.0), None, ("2.5 %", "--precision")),
    ],
)  # fmt: skip
def test_what_would_decide_an_undecided_comparison(
    analysis: Analysis, sampling: SuiteSampling | None, more_pairs: int | None, named: tuple[str, ...]
) -> None:
    undecided = changed(difference("inconclusive", 0.97), more_pairs=more_pairs)
    (finding,) = told(analysis, sampling=sampling, difference=undecided)
    assert finding.id == "comparison.inconclusive"
    assert all(each in finding.action for each in named)


def test_an_undecided_comparison_says_what_would_have_shown(analysis: Analysis) -> None:
    (finding,) = told(analysis, difference=difference("inconclusive", 0.97), cpu_difference=difference("faster", 0.9))
    assert (finding.id, finding.figures) == ("comparison.inconclusive", {"ratio": 0.97})
    for figure in ("10.0 %", "faster", "0.900"):
        assert figure in finding.evidence


def test_out_of_memory_names_the_category_to_attack(analysis: Analysis) -> None:
    shares = (MemoryShare(category="activation", bytes=700), MemoryShare(category="parameter", bytes=300))
    account = MemoryAccount(peak_bytes=1000, peak_phase="backward", source="events", categories=shares)
    (finding,) = told(analysis, base={"memory": account}, status=RunStatus.OUT_OF_MEMORY, reason="at step 1")
    assert finding.id == "variant.out_of_memory"
    assert "at step 1" in finding.evidence
    assert "activation" in finding.evidence
    assert "700 B" in finding.evidence
    assert "ckpt" in finding.action


MIB = 2**20


def memory(mib: dict[str, int], **more: Any) -> MemoryAccount:
    shares = tuple(MemoryShare(category=name, bytes=size * MIB) for name, size in mib.items())
    peak = sum(mib.values()) * MIB
    return MemoryAccount(peak_bytes=peak, peak_phase="backward", source="events", categories=shares, **more)


def test_the_baselines_three_largest_categories_are_told_and_what_came_of_what_was_tried(analysis: Analysis) -> None:
    full = memory({"activation": 400, "gradient": 150, "optimizer state": 300, "parameter": 150})
    found = told(analysis, base={"memory": full}, memory=full, memory_ratio=0.8)
    told_of_memory = [finding for finding in found if finding.id.startswith("memory.")]
    assert [finding.gain_bytes for finding in told_of_memory] == [400 * MIB, 300 * MIB, 150 * MIB]
    assert ids(told_of_memory) == ["memory.activations", "memory.optimizer_state", "memory.gradients"]
    assert {finding.variant for finding in told_of_memory} == {"baseline"}
    assert re.search(r"amp: 0\.80\D", told_of_memory[0].action)


def test_a_leak_is_told_once_for_all_variants(analysis: Analysis) -> None:
    leak = MemoryGrowth(bytes_per_step=MIB, blocks_per_step=1.0, steps=5, category="activation")
    grows = memory({"input": 100}, growth=(leak,))
    (growth,) = of(told(analysis, base={"memory": grows}, memory=grows), "memory.growth")
    assert growth.figures == {"growth_bytes": MIB, "steps": 5}
    found = told(analysis, base={"memory": memory({"input": 100})}, memory=grows)
    assert [finding.variant for finding in of(found, "memory.growth")] == ["amp"]


def test_a_request_that_failed_is_told_instead_of_the_largest_category_alone(analysis: Analysis) -> None:
    request = FailedRequest(bytes=50 * MIB, message="")
    died = memory({"activation": 100}, failed_request=request)
    (finding,) = told(analysis, memory=died, status=RunStatus.OUT_OF_MEMORY, reason="at step 1")
    assert (finding.id, finding.variant) == ("memory.request_failed", "amp")
    assert finding.figures["asked_bytes"] == 50 * MIB
    assert "activation first" in finding.action


def test_graph_breaks_are_listed_with_reasons(analysis: Analysis) -> None:
    compiled = CompileSummary(
        seconds=10.0,
        graphs=2,
        graph_breaks=1,
        break_reasons=("print()",),
        cache="cold",
        break_even_step=5,
        break_even="x",
        graph_calls=16.0,
    )
    found = told(analysis, compile=compiled)
    (breaks,) = of(found, "compile.graph_breaks")
    assert (breaks.variant, breaks.figures) == ("amp", {"breaks": 1, "graph_calls": 16.0})
    assert "print()" in breaks.evidence
    assert re.search(r"\b16\b", breaks.evidence)
    (faster,) = of(found, "variant.faster")
    assert re.search(r"\b5\b", str(faster.details))


GROWN = Recompilation(
    function="forward (net.py:31)",
    guard="tensor 'ids' size mismatch at index 1. expected 17, actual 9",
    count=7,
    seconds=2.5,
    limited=True,
)
VALUE = Recompilation(function="scale (net.py:3)", guard="G['net'].step == 4", count=3, seconds=0.5)


@pytest.mark.parametrize(("rows", "remedy"), [((GROWN, VALUE), "dynamic=True"), ((VALUE, GROWN), "Python value")])
@pytest.mark.parametrize("who", ["baseline", "amp"])
def test_recompilations_are_told_with_their_guards(
    rows: tuple[Recompilation, ...], remedy: str, who: str, analysis: Analysis
) -> None:
    compiled = CompileSummary(
        seconds=10.0,
        graphs=12,
        graph_breaks=0,
        break_reasons=(),
        cache="cold",
        break_even_step=5,
        break_even="x",
        recompilations=rows,
    )
    found = told(analysis, base={"compile": compiled}) if who == "baseline" else told(analysis, compile=compiled)
    (again,) = of(found, "compile.recompilations")
    assert (again.variant, again.figures) == (who, {"recompilations": 10, "compile_s": 3.0, "limited": 1})
    assert all(row.function in again.evidence and row.guard in again.evidence for row in rows)
    assert remedy in again.action
    none = told(analysis, compile=changed(compiled, recompilations=()))
    assert of(none, "compile.recompilations") == []


def test_when_compiling_pays_is_told_cold_and_warm(analysis: Analysis) -> None:
    compiled = CompileSummary(
        seconds=10.0,
        graphs=2,
        graph_breaks=0,
        break_reasons=(),
        cache="cold (0 hits, 3 misses)",
        break_even_step=1000,
        break_even="after 1,000 steps: 10.0 s spent, 10.0 ms saved per step",
        warm=WarmCompile(seconds=2.0, processes=3, break_even_step=200, break_even="after 200 steps: ..."),
    )
    (said,) = of(told(analysis, compile=compiled), "compile.break_even")
    assert (said.variant, said.figures) == ("amp", {"first_s": 10.0, "warm_s": 2.0})
    assert "1,000 steps" in said.title
    assert "200 steps" in said.evidence
    decided = said.title
    slower = changed(compiled, break_even_step=None, break_even="never: a step takes 1 ms longer", warm=None)
    (said,) = of(told(analysis, compile=slower), "compile.break_even")
    assert said.figures == {"first_s": 10.0}
    assert "never" in said.title
    undecided = told(analysis, compile=compiled, difference=difference("inconclusive", 0.9))
    (said,) = of(undecided, "compile.break_even")
    assert "1,000 steps" in said.title
    assert said.title != decided  # it says that the comparison is inconclusive


def budgeted(analysis: Analysis, peaks: dict[float, int]) -> list[Finding]:
    """Findings on `compile` with budgets that came to these peaks; 1 is without one."""
    variants, passes = [analysis.variants[0]], {}
    for budget, peak in peaks.items():
        asked = () if budget == 1 else (f"ckpt:mode=budget:budget={budget:g}",)
        name = "+".join((*asked, "compile"))
        techniques = (*asked, "compile")
        fields: dict[str, Any] = {"peak_allocated": make_measurement(peak, "bytes", "x"), "difference": None}
        variants.append(changed(analysis.variants[1], name=name, techniques=techniques, **fields))
        facts = {"activation_memory_budget": float(budget), "saved_tensor_bytes": 8.0 * MIB} if asked else {}
        passes[name] = PassResults(facts=(facts,))
    found = collect_suite_findings(tuple(variants), ENVIRONMENT, CEILINGS, passes, None)
    return of(list(found), "checkpointing.budget_peak")


def test_a_smaller_budget_that_needs_more_memory_is_told(analysis: Analysis) -> None:
    """The peaks of gpt:size=nano in MiB, as measured."""
    found = budgeted(analysis, {1: 45 * MIB, 0.5: 28 * MIB, 0.15: 37 * MIB, 0: 53 * MIB})
    assert {finding.variant for finding in found} == {
        "ckpt:mode=budget:budget=0+compile",
        "ckpt:mode=budget:budget=0.15+compile",
    }
    (worst,) = (finding for finding in found if "budget=0+" in finding.variant)
    assert worst.figures == {"peak_bytes": 53 * MIB, "other_peak_bytes": 28 * MIB, "budget": 0.0}
    assert "ckpt:mode=budget:budget=0.5+compile" in worst.title
    assert "8.00 MiB saved" in worst.evidence
    (alone,) = budgeted(analysis, {1: 45 * MIB, 0: 53 * MIB})
    assert alone.figures["other_peak_bytes"] == 45 * MIB
    assert budgeted(analysis, {1: 45 * MIB, 0.5: 28 * MIB, 0.2: 20 * MIB}) == []


def product(dtype: str, seconds: float) -> OpRow:
    shapes = f"{dtype}[1024,512] {dtype}[512,2048]"
    return row("aten::mm", seconds, dtype=dtype, shapes=shapes, bound="compute", bytes=1e6, unit="matrix")


def traced(**traces: RankTrace) -> dict[str, PassResults]:
    """By variant what was traced of it, on a device whose bf16 peak is 8 times that of fp32; a traced step is 1 s, a
    timed one 80 ms of amp and 100 ms of the others."""
    return {
        name: apply_timed_clock(
            PassResults(traces=(changed(trace, label=name, ceilings=ceilings()),)),
            MedianEstimate(value=0.08 if name == "amp" else 0.1, unit="s", per_process=()),
        )
        for name, trace in traces.items()
    }


SOFTMAX = row("aten::_softmax", 0.2, shapes="bf16[4,8,128,128]")
SCORES = row("aten::bmm", 0.1, shapes="bf16[32,128,64] bf16[32,64,128]", dtype="bf16", bound="compute")
STATES = tuple(row(f"aten::{name}_", 0.15, phase="optimizer", attainable_s=0.05) for name in ("lerp", "addcmul"))


def test_every_variants_trace_is_judged_by_the_rules_of_analyze(analysis: Analysis) -> None:
    ops = (SOFTMAX, SCORES, *STATES, product("fp32", 0.3))
    found = told(analysis, passes=traced(baseline=rank_trace(ops=ops)))
    gains = {finding.id: finding for finding in found if finding.variant == "baseline"}
    # Gains are parts of a traced second; a timed step takes a tenth of that.
    assert gains["attention.unfused"].gain_s == pytest.approx(0.02)
    assert gains["optimizer.unfused"].gain_s == pytest.approx(0.02)
    fp32 = gains["gemm.fp32"]
    assert fp32.gain_s == pytest.approx(0.03 * 7 / 8)
    assert fp32.figures["bf16_flops_per_s"] / fp32.figures["fp32_flops_per_s"] == 8
    assert re.search(r"amp: faster, 0\.80\D", fp32.action)
    assert gains["attention.unfused"].action.endswith("--technique flash.")


def test_a_rule_that_had_no_twin_speaks_of_a_bench_too(analysis: Analysis) -> None:
    converted = row("aten::_to_copy", 0.2, shapes="fp32[8,8] bf16[8,8]")
    found = told(analysis, passes=traced(baseline=rank_trace(), amp=rank_trace(ops=(converted,))))
    (finding,) = of(found, "dtype.conversions")
    assert (finding.variant, finding.gain_s) == ("amp", pytest.approx(0.2 * 0.08))


def test_a_technique_that_is_on_is_not_advised(analysis: Analysis) -> None:
    found = told(analysis, passes=traced(amp=rank_trace(ops=(product("fp32", 0.3),))))
    (finding,) = of(found, "gemm.fp32")
    assert finding.variant == "amp"
    assert "ried as" not in finding.action


def test_where_no_ceilings_are_known_a_bench_has_no_advice_on_how_to_record(analysis: Analysis) -> None:
    bare = {"baseline": PassResults(traces=(changed(rank_trace(steps=(), ops=()), label="baseline"),))}
    assert ids(told(analysis, passes=bare)) == ["variant.faster"]


def test_ceilings_that_did_not_repeat_are_named(analysis: Analysis) -> None:
    doubtful = changed(CEILINGS.ceilings[0], confidence=Confidence.LOW, spread=0.2)
    others = changed(doubtful, threads=16), *CEILINGS.ceilings[1:]
    ceilings = changed(CEILINGS, ceilings=(doubtful, *others))
    step = row(
        "step", 1.0, kind="step", flops=1e9, bytes=1e6, intensity=1e3, flops_per_s=1e9, unit="matrix", dtype="fp32"
    )
    held = sum(each.threads in (None, 2) for each in ceilings.ceilings)
    base = {"trace": rank_trace(summary=(step,))}
    (found,) = of(told(analysis, base=base, ceilings=ceilings), "limit.uncertain_ceilings")
    assert found.figures == {"uncertain": 1, "ceilings": held}  # that of 16 threads held nothing
    assert "fp32 matrix" in found.evidence
    assert "20.0 %" in found.evidence
    assert of(told(analysis, ceilings=ceilings), "limit.uncertain_ceilings") == []  # nothing was held against


def test_warnings_come_first(analysis: Analysis) -> None:
    found = told(analysis, claims=(held(False),), difference=difference("faster", 0.8))
    assert [finding.severity for finding in found] == ["warning", "gain"]


def test_work_without_a_bound_says_whether_an_estimate_or_a_ceiling_is_missing(analysis: Analysis) -> None:
    split = (TimeShare(category="no FLOP or byte estimate", seconds=0.5, share=0.5),)
    ops = (row("aten::mm", 0.4, bound="unknown", flops=1.0, bytes=1.0), row("mine::op", 0.1, bound="unknown"))
    base = {"trace": rank_trace(ops=ops, time_split=split)}
    (finding,) = of(told(analysis, base=base), "limit.unmodeled_ops")
    assert finding.figures == {"share": 0.5}
    unestimated, unlimited = finding.evidence.split(";")
    assert "mine::op" in unestimated
    assert "aten::mm" in unlimited
    assert "calibrate" in finding.action
    many = tuple(row(f"mine::op{place}", 0.05, bound="unknown") for place in range(10))
    (finding,) = of(told(analysis, base={"trace": rank_trace(ops=many, time_split=split)}), "limit.unmodeled_ops")
    assert "mine::op7 and 2 more" in finding.evidence
    assert "mine::op8" not in finding.evidence


def test_what_a_variant_showed_comes_before_what_a_trace_promises(analysis: Analysis) -> None:
    ops = (changed(SOFTMAX, seconds=0.9), SCORES)  # promises more than amp has won
    found = told(analysis, difference=difference("faster", 0.9), passes=traced(baseline=rank_trace(ops=ops)))
    assert ids(found).index("variant.faster") < ids(found).index("attention.unfused")


def test_what_all_variants_could_win_is_told_once_of_the_baseline_of_the_fewest_ranks(analysis: Analysis) -> None:
    base, amp = analysis.variants
    two = changed(base, name="baseline@2", world_size=2)
    slow = rank_trace(ops=(changed(SOFTMAX, seconds=0.9), SCORES))
    passes = traced(**{"baseline": rank_trace(ops=(SOFTMAX, SCORES)), "baseline@2": slow, "amp": slow})
    found = collect_suite_findings((two, base, amp), analysis.environment, CEILINGS, passes)
    (fused,) = of(list(found), "attention.unfused")
    assert fused.variant == "baseline"
    others = re.findall(r"([\w@]+) \((\d+\.\d) ms\)", fused.details[-1])
    assert others == [("baseline@2", "90.0"), ("amp", "72.0")]


def test_gains_in_a_traced_step_that_lost_kernels_are_at_least_so_much(analysis: Analysis) -> None:
    for lost, bound in ((0, "at most"), (50, "at least")):
        count = LostKernels(launched=100, lost=lost, without_time=0, share=lost / 100)
        found = told(analysis, passes=traced(baseline=rank_trace(ops=(SOFTMAX, SCORES), lost_kernels=count)))
        (fused,) = of(found, "attention.unfused")
        assert fused.gain_bound == bound
        assert len(of(found, "limit.lost_kernels")) == bool(lost)


@pytest.mark.parametrize(
    ("capability", "verdict", "told_of"),
    [("AVX2", "slower", True), ("AVX512", "slower", False), ("AVX2", "faster", False), (None, "slower", False)],
)
def test_mixed_precision_without_instructions_for_it(
    analysis: Analysis, capability: str | None, verdict: str, told_of: bool
) -> None:
    machine = changed(ENVIRONMENT, cpu_capability=capability)
    found = told(analysis, environment=machine, difference=difference(verdict, 24.0 if verdict == "slower" else 0.5))
    slow = of(found, "dtype.software_bf16")
    assert bool(slow) == told_of
    if told_of:
        assert slow[0].figures == {"ratio": 24.0}
        assert "AVX2" in slow[0].evidence


def test_a_technique_that_acts_in_part_is_not_credited(analysis: Analysis) -> None:
    part = changed(held(False), outcome="in part")
    found = told(analysis, active=False, active_in_part=True, claims=(part,))
    assert ids(found) == ["claim.in_part"]


def test_a_technique_has_one_warning_that_begins_with_what_was_found(analysis: Analysis) -> None:
    part = changed(held(False), outcome="in part", evidence="3 of 12 attention calls")
    found = told(analysis, active=False, claims=(part, held(False), held(False)))
    assert ids(found) == ["claim.not_active"]
    assert found[0].figures == {"claims": 3.0}
    assert list_figures(found[0].evidence)[:2] == ["3", "12"]


def test_undeclared_memory_is_a_warning_with_its_amounts(analysis: Analysis) -> None:
    kept = KeptCopies(
        category="other", kept_bytes=3 << 20, declared_bytes=1 << 20, parameter_bytes=2 << 20, rank=0, dtypes=("fp32",)
    )
    saver = {"memory_ratio": 0.6, "difference": difference("slower", 1.2)}
    (finding,) = told(analysis, active=False, copies=(kept,), **saver)
    assert (finding.id, finding.severity) == ("claim.kept_copies", "warning")
    assert finding.figures == {"ratio": 1.5, "kept_bytes": 3 << 20, "declared_bytes": 1 << 20}
    assert list_figures(finding.evidence) == ["1.5x", "3.00 MiB", "1.00 MiB"]
