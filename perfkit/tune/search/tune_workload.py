"""Searches for the best variant of a workload in stages: each measures candidates on top of the best so far, and keeps
the best proven improvement. What remains is measured again in new processes, and only that gain is reported."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import BASELINE, TechniqueSpec, format_variant_label, parse_variants
from perfkit.core.units import format_seconds
from perfkit.devices.machine.device_choice import find_device
from perfkit.store.bench_command import format_request_command
from perfkit.store.request import BenchRequest
from perfkit.store.summary import TUNE_FILE
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.tune.model.tune_request import Techniques, TuneRequest
from perfkit.tune.model.tune_result import (
    PROOF_FOLDER,
    Proof,
    SwitchedTechnique,
    TuneConclusion,
    TuneResult,
    read_tune_result,
)
from perfkit.tune.patch.patch_workload import patch_workload
from perfkit.tune.search.choose_candidates import (
    choose_candidates,
    is_promising,
    list_open_candidates,
)
from perfkit.tune.search.judge_trials import judge_stage
from perfkit.tune.search.leading_finding import describe_stage
from perfkit.tune.search.measure_trials import MeasuredStage, TrialBench, get_step_s, map_by_label
from perfkit.tune.search.rank_candidates import RankedCandidate, Ranking, rank_candidates
from perfkit.tune.search.search_result import (
    add_trials,
    add_untried,
    begin_result,
    conclude_search,
    explain_end,
    find_best_single,
)
from perfkit.tune.search.trial_cost import TrialCost
from perfkit.workloads.user_workload import get_source_file

# Of the budget, what is kept for the proofs of the variant and of the patch, and of that the variant's where a file can
# be patched. A margin of some percent over the best technique alone takes twenty rounds.
_PROOF_SHARE, _VARIANT_SHARE = 0.3, 0.6
# Of what is left, what the next stage may take.
_STAGE_SHARE = 0.5
# A stage of fewer candidates takes all that is left.
_FEWEST = 2

Report = Callable[[str], None]


def tune_workload(
    request: TuneRequest,
    folder: Path,
    bench: TrialBench,
    *,
    command: str,
    report: Report = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> TuneResult:
    """Search for the best variant, and store the result in `folder` after every stage.

    `bench` measures into the suite of trials; `report` receives a line per stage. A KeyboardInterrupt ends the search:
    the result then says so, and has the best variant so far.
    """
    search = _Search(request, folder, bench, command, report, clock)
    try:
        search.run()
    except KeyboardInterrupt:
        if search.result.proof is None:  # else the patch was being measured, and the gain holds without it
            search.store("interrupted", "interrupted")
        raise
    return search.result


class _Search:
    """The state of a search: `best` are the techniques accepted so far, `best_name` that variant's name in the suite,
    `added` what each trial added to its base."""

    def __init__(
        self,
        request: TuneRequest,
        folder: Path,
        bench: TrialBench,
        command: str,
        report: Report,
        clock: Callable[[], float],
    ) -> None:
        self.request, self.folder, self.bench = request, folder, bench
        self.report, self.clock = report, clock
        self.best: Techniques = ()
        self.best_name = BASELINE
        self.cost = TrialCost(0.0, 0.0)
        self.has_file = get_source_file(request.bench.workload.name) is not None
        self.result = _make_result(request, folder, command)
        self.begun_s = clock()
        if (folder / TUNE_FILE).is_file():
            self._restore(read_tune_result(folder))

    def run(self) -> None:
        self._learn_baseline(self.bench.measure_baseline())
        end_reason = ""
        while not end_reason:
            end_reason = self._run_stage()
        proof = self._prove() if self.best else None
        best = format_variant_label(self.best) if self.best else ""
        conclusion = conclude_search(self.request.objective, best, proof, refused=("differs", "unknown"))
        self.store(conclusion, end_reason, proof)
        if proof is not None and conclusion == "proven" and self.request.objective != "memory":
            self._patch(proof)
            self.store(conclusion, end_reason, proof)

    def store(self, conclusion: TuneConclusion, end_reason: str, proof: Proof | None = None) -> None:
        """Write the result so far."""
        self.result = replace(
            self.result,
            spent_s=self.clock() - self.begun_s,
            conclusion=conclusion,
            end_reason=end_reason,
            best=format_variant_label(self.best) if self.best else "",
            techniques=tuple(_describe_technique(self.request.bench, self.best, spec) for spec in self.best),
            best_single=find_best_single(self.result.trials, self.request.objective),
            proof=proof,
        )
        write_json(self.folder / TUNE_FILE, self.result)

    def _restore(self, earlier: TuneResult) -> None:
        """Continue an interrupted search: its trials count, and the time that they took."""
        self.result = replace(earlier, command=self.result.command, folder=self.result.folder, proof=None)
        self.begun_s -= earlier.spent_s
        if earlier.best:
            self._set_best(earlier.best, analyze_suite(self.bench.folder))

    def _set_best(self, label: str, analysis: Analysis) -> None:
        (self.best,) = parse_variants(label)
        self.best_name = map_by_label(analysis)[label].name

    def _learn_baseline(self, measured: MeasuredStage) -> None:
        baseline = map_by_label(measured.analysis)[BASELINE]
        if baseline.status != RunStatus.OK:
            raise UsageError(f"the baseline does not train: {baseline.reason}", id="check.side_failed")
        if not self.best:
            self.best_name = baseline.name
        self.cost = measured.cost
        self.result = replace(
            self.result,
            baseline_step_s=get_step_s(baseline),
            baseline_peak_bytes=get_value(baseline.peak_allocated),
        )

    def _run_stage(self) -> str:
        """Measure the most promising candidates on top of the best so far; returns why the search ends, "" if not."""
        base = format_variant_label(self.best) if self.best else ""
        ranking = rank_candidates(self.bench.folder, self.request, self.best, self.best_name)
        candidates = list_open_candidates(ranking.candidates, self.best, self.result.trials)
        chosen, budget_s = self._choose_candidates(candidates)
        if not chosen:
            self._note_untried(ranking, candidates)
            return explain_end(self.result.trials, candidates)
        stage = max((trial.stage for trial in self.result.trials), default=0) + 1
        lead = describe_stage(stage, base, ranking.leading)
        self.report(f"stage {stage}, on top of {base or BASELINE}: {', '.join(each.name for each in chosen)}")
        if lead.title:
            self.report(f"stage {stage}: the largest gain in the trace is {lead.finding}: {lead.title}")
        variants = [each.specs for each in chosen]
        race = _is_race(self.request, variants)
        measured = self.bench.measure_variants(variants, self.best, budget_s, race=race)
        trials = judge_stage(stage, base, chosen, map_by_label(measured.analysis), self.request, measured.gains)
        self.result = replace(add_trials(self.result, trials), stages=(*self.result.stages, lead))
        self.cost = measured.cost
        self._note_untried(ranking, candidates)
        accepted = next((trial for trial in trials if trial.outcome == "accepted"), None)
        if accepted is not None:
            self._set_best(accepted.variant, measured.analysis)
            self.report(f"stage {stage}: accepted {accepted.variant}")
        self.store("interrupted", "")
        more = accepted is not None or any(map(is_promising, trials)) or len(chosen) < len(candidates)
        return "" if more else "no candidate is left"

    def _choose_candidates(self, candidates: Sequence[RankedCandidate]) -> tuple[tuple[RankedCandidate, ...], float]:
        """The candidates that the stage's share of the budget is enough for, and that share in seconds."""
        anchors = 2 if self.best else 1
        proof_s = max(_PROOF_SHARE * self.request.budget_s, self.cost.estimate_proof_s(anchors))
        left_s = self._count_left_s() - proof_s
        budget_s = _STAGE_SHARE * left_s
        count = self.cost.count_trials(budget_s, anchors)
        if count < _FEWEST:
            budget_s = left_s
            count = max(self.cost.count_trials(budget_s, anchors), self.cost.is_one_affordable(left_s))
        return choose_candidates(candidates, self.best, count), budget_s

    def _note_untried(self, ranking: Ranking, candidates: Sequence[RankedCandidate]) -> None:
        self.result = add_untried(self.result, ranking.untried, (each.name for each in candidates))

    def _patch(self, proof: Proof) -> None:
        """Write the best variant into the workload's file, if it is one, and measure the patched program."""
        patch = patch_workload(
            self.request.bench,
            self.best,
            self.folder,
            tolerance=proof.tolerance,
            budget_s=max(self._count_left_s(), 1.0),
            report=self.report,
        )
        self.result = replace(self.result, patch=patch)

    def _count_left_s(self) -> float:
        return self.request.budget_s - (self.clock() - self.begun_s)

    def _prove(self) -> Proof | None:
        best, single = format_variant_label(self.best), self.result.best_single
        # Even if that takes longer than the budget: without a proof all was in vain.
        enough_s = self.cost.estimate_proof_s(1 if single in ("", best) else 2)
        left_s = max((_VARIANT_SHARE if self.has_file else 1.0) * self._count_left_s(), enough_s)
        self.report(f"proof of {best} in new processes, {format_seconds(left_s)}")
        alone = parse_variants(single)[0] if single else None
        return self.bench.prove_variant(self.folder / PROOF_FOLDER, self.best, alone, left_s)


def _make_result(request: TuneRequest, folder: Path, command: str) -> TuneResult:
    return begin_result(
        command=command,
        folder=str(folder),
        workload=request.bench.workload.label,
        device=find_device(request.bench.device).name,
        device_type=request.bench.device,
        technique=request.technique,
        objective=request.objective,
        allow=request.allow,
        limit_bytes=request.limit_bytes,
        budget_s=request.budget_s,
    )


def _is_race(request: TuneRequest, variants: Sequence[Techniques]) -> bool:
    """True if a variant's step time alone decides on it: not where memory does, or batches are of several sizes."""
    return request.objective != "memory" and not any(spec.name == "batch" for specs in variants for spec in specs)


def _describe_technique(request: BenchRequest, best: Techniques, spec: TechniqueSpec) -> SwitchedTechnique:
    technique = TECHNIQUES.load(spec.name)
    rest = format_variant_label(each for each in best if each != spec) or BASELINE
    both = format_variant_label(best) if rest == BASELINE else f"{rest},{format_variant_label(best)}"
    return SwitchedTechnique(
        label=spec.label,
        summary=technique.summary,
        costs=technique.costs,
        verify=format_request_command(request, both),
        undo=format_request_command(request, rest),
    )
