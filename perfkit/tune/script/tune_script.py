"""Searches for the edits of a training script that make its steps fastest: each stage measures candidates on top of the
edits accepted so far, beside the original. The whole patch is then measured again in processes that chose nothing."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from perfkit.core.files import write_json
from perfkit.core.sampling import LEAST_ROUNDS
from perfkit.core.units import format_seconds
from perfkit.devices.machine.device_choice import find_device
from perfkit.store.summary import TUNE_FILE
from perfkit.tune.model.tune_result import (
    Proof,
    Trial,
    TuneConclusion,
    TunedScript,
    TuneResult,
    read_tune_result,
)
from perfkit.tune.patch.script_edits import EDITS_BY_NAME, describe_edit
from perfkit.tune.script.judge_edits import STAGE_ROUNDS, LossReference, explain_unseen
from perfkit.tune.script.measure_stage import StageMeasurement, prove_edits
from perfkit.tune.script.rank_edits import EditRanking, RankedEdit, rank_edits
from perfkit.tune.script.record_script import RecordedScript
from perfkit.tune.script.script_bench import Edits, ScriptBench, get_peak_bytes, get_variant, name_edits
from perfkit.tune.script.script_copies import recognizes
from perfkit.tune.script.script_request import ScriptRequest
from perfkit.tune.script.script_rounds import RoundSteps
from perfkit.tune.script.write_script_patch import make_script_patch
from perfkit.tune.search.choose_candidates import is_promising
from perfkit.tune.search.leading_finding import choose_leading_finding, describe_stage
from perfkit.tune.search.measure_trials import get_step_s
from perfkit.tune.search.search_result import (
    add_trials,
    add_untried,
    begin_result,
    conclude_search,
    explain_end,
    find_best_single,
)

# Candidates of a stage, which all have a process at a time.
_MOST_CANDIDATES = 4
# Of what is left after the proof's rounds, what a stage may take.
_STAGE_SHARE = 0.6
# Of the budget, at least this for the proof; half of it while nothing is accepted, which what is undecided may take.
_PROOF_SHARE = 0.3
_HOPELESS = ("failed", "losses differ", "slower", "no gain", "over memory limit")

Report = Callable[[str], None]


def tune_script(
    request: ScriptRequest,
    folder: Path,
    *,
    command: str,
    report: Report = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> TuneResult:
    """Search for the best edits of a script, and store the result and the patch in `folder` after every stage.

    A KeyboardInterrupt ends the search: the result then says so, and has the best edits so far.
    """
    search = _Search(request, folder, command, report, clock)
    try:
        search.run()
    except KeyboardInterrupt:
        search.store("interrupted", "interrupted")
        raise
    return search.result


class _Search:
    """The state of a search: `best` are the edits accepted so far, `recorded` the steps of the script with them."""

    def __init__(
        self, request: ScriptRequest, folder: Path, command: str, report: Report, clock: Callable[[], float]
    ) -> None:
        self.request, self.folder, self.report, self.clock = request, folder, report, clock
        self.bench = ScriptBench(request, folder, report)
        self.best: Edits = ()
        self.recorded: RecordedScript | None = None
        self.losses = LossReference()
        self.rounds: dict[Edits, list[Mapping[str, RoundSteps]]] = {}  # by the edits that their candidates extend
        self.begun_s = clock()
        self.result = _make_result(request, folder, command)
        if (folder / TUNE_FILE).is_file():
            self._restore(read_tune_result(folder))

    def run(self) -> None:
        original = self.bench.record_original()
        self.recorded = original if not self.best else self.bench.record(self.best)
        self.result = replace(
            self.result,
            device=find_device(self.bench.place.device).name,
            device_type=self.bench.place.device,
            baseline_step_s=get_step_s(get_variant(original)),
            baseline_peak_bytes=get_peak_bytes(original),
        )
        end_reason = ""
        while not end_reason:
            before = self.best
            end_reason = self._run_stage(self.recorded)
            if self.best != before and not end_reason:
                self.report(f"recording {name_edits(self.best)}")
                self.recorded = self.bench.record(self.best)
        proof = self._prove(original) if self.best else None
        best = name_edits(self.best) if self.best else ""
        # Where losses cannot be seen, only edits were accepted on which none depends.
        conclusion = conclude_search(self.request.objective, best, proof, refused=("differs",))
        self.store(conclusion, end_reason, proof)

    def store(self, conclusion: TuneConclusion, end_reason: str, proof: Proof | None = None) -> None:
        """Write the result so far, and the patch of its edits."""
        patch = make_script_patch(
            self.bench, self.best, proof, self.recorded, self.folder, holds=conclusion == "proven"
        )
        self.result = replace(
            self.result,
            spent_s=self.clock() - self.begun_s,
            conclusion=conclusion,
            end_reason=end_reason,
            best=name_edits(self.best) if self.best else "",
            best_single=find_best_single(self.result.trials, self.request.objective),
            techniques=tuple(map(describe_edit, self.best)),
            proof=proof,
            patch=patch,
            script=TunedScript(
                path=str(self.request.script),
                arguments=self.request.arguments,
                losses_seen=not explain_unseen(self.losses),
            ),
        )
        write_json(self.folder / TUNE_FILE, self.result)

    def _restore(self, earlier: TuneResult) -> None:
        """Continue an interrupted search: its decided trials count, and the time that they took."""
        kept = tuple(trial for trial in earlier.trials if trial.outcome != "undecided")
        self.result = replace(earlier, command=self.result.command, folder=self.result.folder, trials=kept, proof=None)
        self.begun_s -= earlier.spent_s
        self.best = tuple(earlier.best.split("+")) if earlier.best else ()

    def _run_stage(self, recorded: RecordedScript) -> str:
        """Measure the most promising candidates on top of the best so far; returns why the search ends, "" if not."""
        ranking = self._rank_open(recorded)
        chosen, budget_s = self._choose(ranking)
        self._note_untried(ranking, self.best)
        if not chosen:
            end = explain_end(self.result.trials, ranking.edits)
            if not ranking.edits or self.result.trials:
                return end
            return f"{end}; a first trial needs about {format_seconds(self._estimate_least_budget_s())}"
        base, stage = self.best, max((trial.stage for trial in self.result.trials), default=0) + 1
        lead = describe_stage(
            stage, name_edits(self.best) if self.best else "", choose_leading_finding(recorded.analysis.findings)
        )
        self.result = replace(self.result, stages=(*self.result.stages, lead))
        names = ", ".join(name_edits(edits) for edits, _ in chosen)
        self.report(f"stage {stage}, on top of {name_edits(self.best)}: {names}")
        rounds = self.rounds.setdefault(self.best, [])
        measured = StageMeasurement(self.bench, self.best, chosen, self.request, self.losses, rounds, self.clock)
        trials = measured.run(stage, budget_s)
        accepted = _find_best(trials, self.request.objective)
        trials = tuple(replace(each, outcome="accepted") if each is accepted else each for each in trials)
        self.result = add_trials(self.result, trials)
        if accepted is not None:
            self.best = tuple(accepted.variant.split("+"))
            self.report(f"stage {stage}: accepted {accepted.variant}")
        self._note_untried(ranking, base)
        self.store("interrupted", "")
        more = accepted is not None or any(map(is_promising, trials)) or len(chosen) < len(ranking.edits)
        return "" if more else "no candidate is left"

    def _rank_open(self, recorded: RecordedScript) -> EditRanking:
        """The ranking of the edits that the source has a place for, without those that cannot help."""
        hopeless = {name for trial in self.result.trials if trial.outcome in _HOPELESS for name in _get_added(trial)}
        tried = {trial.variant for trial in self.result.trials if not is_promising(trial)}
        offered = [
            EDITS_BY_NAME[name]
            for name in self.request.edits
            if name not in self.best
            and name not in hopeless
            and recognizes(self.bench.sources, self.best, name, self.bench.place)
        ]
        ranking = rank_edits(offered, recorded, self.request.objective, self.best)
        promising = [name for trial in self.result.trials if is_promising(trial) for name in _get_added(trial)]
        helpful = [*self._list_helpful(), *promising]
        left = [each for each in ranking.edits if name_edits((*self.best, each.edit.name)) not in tried]
        return EditRanking(tuple(sorted(left, key=lambda each: each.edit.name not in helpful)), ranking.untried)

    def _list_helpful(self) -> list[str]:
        """Edits that improved the script alone and are not accepted yet, the best first."""
        improved = sorted(
            (trial for trial in self.result.trials if trial.outcome == "improves"), key=lambda trial: trial.ratio or 1.0
        )
        names = [name for trial in improved for name in _get_added(trial)]
        return [name for name in dict.fromkeys(names) if name not in self.best]

    def _choose(self, ranking: EditRanking) -> tuple[list[tuple[Edits, RankedEdit | None]], float]:
        """The variants whose rounds fit into the stage's share of the budget, and that share in seconds.

        Where several edits have helped alone, all of them together are the first.
        """
        share = _PROOF_SHARE if self.best else _PROOF_SHARE / 2
        reserve_s = max(2 * LEAST_ROUNDS * self.bench.process_s, share * self.request.budget_s)
        left_s = self._count_left_s() - reserve_s
        base = 1 + bool(self.best)
        rounds_s = STAGE_ROUNDS * max(self.bench.process_s, 0.1)
        count = min(_MOST_CANDIDATES, int(_STAGE_SHARE * left_s / rounds_s) - base)
        if count < 1 and left_s > rounds_s * (base + 1):
            count = 1
        names = [each.edit.name for each in ranking.edits]
        together = tuple(name for name in self._list_helpful() if name in names)
        variants: list[tuple[Edits, RankedEdit | None]] = []
        tried = {trial.variant for trial in self.result.trials}
        if len(together) > 1 and name_edits((*self.best, *together)) not in tried:
            variants.append(((*self.best, *together), None))
        variants += [((*self.best, each.edit.name), each) for each in ranking.edits]
        whole = len(variants) <= count
        return variants[: max(count, 0)], left_s if whole else max(_STAGE_SHARE * left_s, rounds_s * (base + count))

    def _estimate_least_budget_s(self) -> float:
        """The budget of a search that has spent what this one has, for the rounds of one edit and of the proof."""
        spent_s = self.request.budget_s - self._count_left_s()
        trial_s, proof_s = 2 * STAGE_ROUNDS * self.bench.process_s, 2 * LEAST_ROUNDS * self.bench.process_s
        return max(spent_s + trial_s + proof_s, (spent_s + trial_s) / (1 - _PROOF_SHARE / 2))

    def _note_untried(self, ranking: EditRanking, base: Edits) -> None:
        left = (name_edits((*base, each.edit.name)) for each in ranking.edits)
        self.result = add_untried(self.result, ranking.untried, left)

    def _prove(self, original: RecordedScript) -> Proof | None:
        left_s = max(self._count_left_s(), 1.0)
        self.report(f"proof of {name_edits(self.best)} in new processes, {format_seconds(left_s)}")
        peaks = get_peak_bytes(original), self.bench.peaks.get(self.best)
        return prove_edits(self.bench, self.best, left_s, self.losses, peaks, self.clock)

    def _count_left_s(self) -> float:
        return self.request.budget_s - (self.clock() - self.begun_s)


def _make_result(request: ScriptRequest, folder: Path, command: str) -> TuneResult:
    return begin_result(
        command=command,
        folder=str(folder),
        workload=request.label,
        script=TunedScript(path=str(request.script), arguments=request.arguments),
        device="",
        technique=request.technique,
        objective=request.objective,
        allow=request.allow,
        limit_bytes=request.limit_bytes,
        budget_s=request.budget_s,
    )


def _get_added(trial: Trial) -> tuple[str, ...]:
    """What a trial of one edit added to its base; nothing for several together, of which each may be harmless."""
    base = trial.base.split("+")
    added = tuple(name for name in trial.variant.split("+") if name not in base)
    return added if len(added) == 1 else ()


def _find_best(trials: tuple[Trial, ...], objective: str) -> Trial | None:
    improving = [trial for trial in trials if trial.outcome == "improves"]
    if objective == "memory":
        return min(improving, key=lambda trial: trial.peak_bytes or 0.0, default=None)
    return min(improving, key=lambda trial: trial.gain_ratio or 1.0, default=None)
