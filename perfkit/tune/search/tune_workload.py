"""Searches for the best variant of a workload in stages: each measures candidates on top of the best so far, and keeps
the best proven improvement. What remains is measured again in new processes, and only that gain is reported."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

import perfkit
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.record import RunStatus, get_value
from perfkit.core.spec import BASELINE, TechniqueSpec, format_variant_label, parse_variants
from perfkit.core.units import format_seconds
from perfkit.devices.machine.device_choice import find_device
from perfkit.store.suite_reader import StoredSuite, read_suite
from perfkit.store.summary import TUNE_FILE
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.tune.model.tune_request import NOTABLE_SHARE, Techniques, TuneRequest
from perfkit.tune.model.tune_result import (
    PROOF_FOLDER,
    Objective,
    Proof,
    SwitchedTechnique,
    Trial,
    TuneConclusion,
    TuneResult,
    UntriedVariant,
    read_tune_result,
)
from perfkit.tune.patch.patch_workload import patch_workload
from perfkit.tune.search.judge_trials import get_objective, judge_stage
from perfkit.tune.search.measure_trials import TrialBench, get_step_s, map_by_label
from perfkit.tune.search.rank_candidates import RankedCandidate, Ranking, rank_candidates

# Of the budget, what is kept for the proofs of the variant and of the patch, and of that the variant's.
_PROOF_SHARE, _VARIANT_SHARE = 0.3, 0.6
# Of what is left, what the next stage may take, and of that what first runs may take: rounds take the rest.
_STAGE_SHARE, _FIRST_SHARE = 0.5, 0.5
# What cannot help in any combination.
_HOPELESS = ("failed", "skipped", "losses differ", "not applied", "slower", "no gain")

# A variant's first run takes about this many times as long as the baseline's: techniques are applied, some compile.
_FIRST_RUN_FACTOR = 1.5

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
        self.first_run_s = 0.0
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
        conclusion = _conclude(self.request, self.best, proof)
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
            techniques=tuple(map(_describe_technique, self.best)),
            best_single=_find_best_single(self.result.trials, self.request.objective),
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

    def _learn_baseline(self, analysis: Analysis) -> None:
        baseline = map_by_label(analysis)[BASELINE]
        if baseline.status != RunStatus.OK:
            raise UsageError(f"the baseline does not train: {baseline.reason}", id="check.side_failed")
        if not self.best:
            self.best_name = baseline.name
        self.first_run_s = _compute_first_run_s(read_suite(self.bench.folder))
        self.result = replace(
            self.result,
            baseline_step_s=get_step_s(baseline),
            baseline_peak_bytes=get_value(baseline.peak_allocated),
        )

    def _run_stage(self) -> str:
        """Measure the most promising candidates on top of the best so far; returns why the search ends, "" if not."""
        base = format_variant_label(self.best) if self.best else ""
        ranking = self._rank_open()
        chosen, budget_s = self._choose_candidates(ranking)
        if not chosen:
            self._note_untried(ranking)
            return "the budget is used up" if ranking.candidates else "no candidate is left"
        stage = max((trial.stage for trial in self.result.trials), default=0) + 1
        self.report(f"stage {stage}, on top of {base or BASELINE}: {', '.join(each.name for each in chosen)}")
        measured = [each.specs for each in chosen] + ([self.best] if self.best else [])
        race = self.request.objective != "memory"
        analysis = self.bench.measure_variants(measured, budget_s, race=race)
        trials = judge_stage(stage, base, chosen, map_by_label(analysis), self.request)
        again = {(trial.variant, trial.base) for trial in trials}  # was undecided
        earlier = (trial for trial in self.result.trials if (trial.variant, trial.base) not in again)
        self.result = replace(self.result, trials=(*earlier, *trials))
        self.first_run_s = _compute_first_run_s(read_suite(self.bench.folder))
        self._note_untried(ranking)
        accepted = next((trial for trial in trials if trial.outcome == "accepted"), None)
        if accepted is not None:
            self._set_best(accepted.variant, analysis)
            self.report(f"stage {stage}: accepted {accepted.variant}")
        self.store("interrupted", "")
        more = accepted is not None or any(map(_is_promising, trials)) or len(chosen) < len(ranking.candidates)
        return "" if more else "no candidate is left"

    def _rank_open(self) -> Ranking:
        """The ranking on top of the best so far, without what was tried.

        First comes what improved another variant, then what may improve this one, of which more is measured.
        """
        ranking = rank_candidates(self.bench.folder, self.request, self.best, self.best_name)
        undecided = {trial.variant for trial in self.result.trials if _is_promising(trial)}
        tried = {trial.variant for trial in self.result.trials} - undecided
        hopeless = [_get_added(trial) for trial in self.result.trials if trial.outcome in _HOPELESS]
        helpful = [_get_added(trial) for trial in self.result.trials if trial.outcome == "improves"]
        own = {spec.label for spec in self.best}
        added = {each.name: {spec.label for spec in each.specs} - own for each in ranking.candidates}
        left = [each for each in ranking.candidates if each.name not in tried and added[each.name] not in hopeless]

        def order(each: RankedCandidate) -> tuple[bool, bool]:
            return added[each.name] not in helpful, each.name not in undecided

        return Ranking(tuple(sorted(left, key=order)), ranking.untried)

    def _choose_candidates(self, ranking: Ranking) -> tuple[tuple[RankedCandidate, ...], float]:
        """The candidates whose first runs fit into the stage's share of the budget, and that share in seconds."""
        left_s = (1 - _PROOF_SHARE) * self.request.budget_s - (self.clock() - self.begun_s)
        budget_s, first_s = _STAGE_SHARE * left_s, _FIRST_RUN_FACTOR * self.first_run_s
        count = int(_FIRST_SHARE * budget_s / first_s)
        if count == 0 and left_s > 2 * first_s:  # the last: it takes all that is left
            count, budget_s = 1, left_s
        return ranking.candidates[:count], budget_s

    def _note_untried(self, ranking: Ranking) -> None:
        left = (UntriedVariant(variant=each.name, reason="no time was left") for each in ranking.candidates)
        tried = {trial.variant for trial in self.result.trials}
        noted = {each.variant: each for each in (*self.result.untried, *ranking.untried, *left)}
        self.result = replace(self.result, untried=tuple(each for name, each in noted.items() if name not in tried))

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
        left_s = max(_VARIANT_SHARE * self._count_left_s(), 1.0)
        best, single = format_variant_label(self.best), self.result.best_single
        self.report(f"proof of {best} in new processes, {format_seconds(left_s)}")
        alone = parse_variants(single)[0] if single else None
        return self.bench.prove_variant(self.folder / PROOF_FOLDER, self.best, alone, left_s)


def _make_result(request: TuneRequest, folder: Path, command: str) -> TuneResult:
    return TuneResult(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
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
        spent_s=0.0,
        conclusion="interrupted",
    )


def _compute_first_run_s(stored: StoredSuite) -> float:
    """The mean time of the first runs so far, which have the instruments: of the baseline, and of variants that
    compile."""
    return fmean(run.run.seconds for run in stored.runs if run.spec.passes and run.run.seconds)


def _is_promising(trial: Trial) -> bool:
    """True if more processes may prove an improvement."""
    return trial.outcome == "undecided" and trial.gain_ratio is not None and trial.gain_ratio < 1 - NOTABLE_SHARE


def _describe_technique(spec: TechniqueSpec) -> SwitchedTechnique:
    technique = TECHNIQUES.load(spec.name)
    return SwitchedTechnique(label=spec.label, summary=technique.summary, costs=technique.costs)


def _get_added(trial: Trial) -> set[str]:
    """The labels of the techniques that a trial added to its base."""
    return set(trial.variant.split("+")) - set(trial.base.split("+"))


def _find_best_single(trials: tuple[Trial, ...], objective: Objective) -> str:
    """The best technique alone; "" where none improved."""
    improved = [trial for trial in trials if not trial.base and trial.outcome in ("accepted", "improves")]
    singles = [trial for trial in improved if len(_get_added(trial)) == 1]
    if not singles:
        return ""
    return min(singles, key=lambda trial: get_objective(trial, objective)).variant


def _conclude(request: TuneRequest, best: Techniques, proof: Proof | None) -> TuneConclusion:
    if not best:
        return "no gain"
    if proof is None or proof.parity in ("differs", "unknown") or proof.active is False:
        return "not proven"
    if request.objective != "memory":
        return "proven" if proof.verdict == "faster" else "not proven"
    peak, before = proof.peak_bytes, proof.baseline_peak_bytes
    smaller = peak is not None and before is not None and peak < (1 - NOTABLE_SHARE) * before
    return "proven" if smaller else "not proven"
