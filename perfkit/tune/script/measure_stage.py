"""Measures the candidates of one stage in rounds, beside the original and the edits that they extend, and proves the
edits that remain."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

from perfkit.analysis.model.estimate import SpeedVerdict
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.sampling import LEAST_ROUNDS
from perfkit.tune.model.tune_request import NOTABLE_SHARE
from perfkit.tune.model.tune_result import Proof, Trial, TrialOutcome
from perfkit.tune.script.compare_edits import compare_edited_losses
from perfkit.tune.script.judge_edits import (
    STAGE_ROUNDS,
    LossComparison,
    LossReference,
    StepRatio,
    allows,
    compare_steps,
    judge_ratio,
)
from perfkit.tune.script.rank_edits import RankedEdit
from perfkit.tune.script.record_script import ScriptFailedError
from perfkit.tune.script.script_bench import ECHO, ORIGINAL, Edits, ScriptBench, get_peak_bytes, name_edits
from perfkit.tune.script.script_request import ScriptRequest
from perfkit.tune.script.script_rounds import RoundSteps, VariantFailedError

_MOST_ROUNDS = 12
# The proof's interval is to be at most so wide on each side, or this part of the gain; it has at most so many rounds.
_PROOF_ROUNDS = 30
_PRECISION, _OF_THE_GAIN = 0.025, 0.1


class StageMeasurement:
    """The rounds of one stage, added to `rounds`: those of earlier stages on top of the same edits count, too. `losses`
    collects those of the original's processes, for all stages."""

    def __init__(
        self,
        bench: ScriptBench,
        base: Edits,
        chosen: Sequence[tuple[Edits, RankedEdit | None]],
        request: ScriptRequest,
        losses: LossReference,
        rounds: list[Mapping[str, RoundSteps]],
        clock: Callable[[], float],
    ) -> None:
        self.rounds, self.measured = rounds, 0
        self.bench, self.base, self.request, self.losses, self.clock = bench, base, request, losses, clock
        self.expected = {name_edits(edits): ranked for edits, ranked in chosen}
        self.alive = {name_edits(edits): edits for edits, _ in chosen}
        self.edits = dict(self.alive)
        self.flaws: dict[str, tuple[TrialOutcome, str]] = {}
        self.peaks: dict[str, float | None] = {}

    def run(self, stage: int, budget_s: float) -> tuple[Trial, ...]:
        """Measure in about `budget_s`, and judge each candidate."""
        end = self.clock() + budget_s
        if self.request.objective == "memory" or self.request.limit_bytes is not None:
            self._record_peaks()
        most = 1 if self.request.objective == "memory" else _MOST_ROUNDS
        while self.alive and self.measured < most and self._has_time(end):
            self._measure_round(end)
            self._shed(end)
        return tuple(self._judge(stage, name) for name in self.edits)

    def _has_time(self, end: float) -> bool:
        """True if there are too few rounds yet, or another one fits into the time."""
        references = 1 + bool(self.base)
        return (
            self.measured < STAGE_ROUNDS or self.clock() + self.bench.process_s * (references + len(self.alive)) < end
        )

    def _measure_round(self, end: float) -> None:
        references: list[Edits] = [(), self.base] if self.base else [()]
        variants = [*references, *self.alive.values()]
        left = max(1, STAGE_ROUNDS - self.measured)
        turns_s = max((end - self.clock()) / left / 2, 1.0)
        try:
            steps = self.bench.measure(variants, turns_s, echo=self.losses.echo is None)
        except VariantFailedError as error:
            if error.variant not in self.alive:
                raise ScriptFailedError(f"{error.variant}: {error}") from None
            self._drop(error.variant, "failed", str(error))
            return
        self.rounds.append(steps)
        self.measured += 1
        self.losses.originals.append(steps[ORIGINAL].notes.losses)
        if ECHO in steps:
            self.losses.echo = steps[ECHO].notes.losses
        for name in list(self.alive):
            self._drop_flawed(name, steps)
        self.bench.report(f"round {self.measured}: {', '.join(self._describe(name) for name in self.alive) or '-'}")

    def _shed(self, end: float) -> None:
        """Give up the candidates that look worst, until the rounds that an interval needs fit into the time."""
        left = STAGE_ROUNDS - self.measured
        while left > 0 and len(self.alive) > 1:
            needed_s = self.bench.process_s * (1 + bool(self.base) + len(self.alive)) * left
            if self.clock() + needed_s <= end:
                return
            compared = {name: self._compare_base(name) for name in self.alive}
            worst = max(compared, key=lambda name: math.inf if (each := compared[name]) is None else each.ratio)
            del self.alive[worst]

    def _drop_flawed(self, name: str, steps: Mapping[str, RoundSteps]) -> None:
        compared = compare_edited_losses(self.bench, self.edits[name], steps[name].notes.losses, self.losses)
        if not allows(compared, self.edits[name], self.request.allow):
            self._drop(name, "losses differ", compared.reason or compared.verdict)
            return
        if self.measured < STAGE_ROUNDS:
            return
        ratio = self._compare_base(name)
        outcome, _ = judge_ratio(ratio)
        hopeless = outcome == "undecided" and ratio is not None and ratio.ratio >= 1 - NOTABLE_SHARE
        if outcome in ("slower", "no gain") or hopeless:
            del self.alive[name]
        elif outcome == "improves" and all(self._is_decided(each) for each in self.alive):
            self.alive.clear()

    def _is_decided(self, name: str) -> bool:
        return judge_ratio(self._compare_base(name))[0] != "undecided"

    def _drop(self, name: str, outcome: TrialOutcome, reason: str) -> None:
        self.flaws[name] = outcome, reason
        self.alive.pop(name, None)
        self.bench.report(f"{name}: {outcome}: {reason.splitlines()[0] if reason else ''}")

    def _record_peaks(self) -> None:
        """Record each candidate for its peak memory."""
        for name, edits in list(self.alive.items()):
            try:
                self.peaks[name] = get_peak_bytes(self.bench.record(edits))
            except ScriptFailedError as error:
                self._drop(name, "failed", str(error))
                continue
            limit, peak = self.request.limit_bytes, self.peaks[name]
            if limit is not None and (peak is None or peak > limit):
                self._drop(name, "over memory limit", "peak unknown" if peak is None else "")

    def _compare_base(self, name: str) -> StepRatio | None:
        return compare_steps(self.rounds, name, name_edits(self.base), by_turns=self.bench.by_turns)

    def _describe(self, name: str) -> str:
        ratio = self._compare_base(name)
        return name if ratio is None else f"{name} {1 / ratio.ratio:.2f}x"

    def _judge(self, stage: int, name: str) -> Trial:
        over_base = self._compare_base(name)
        over_original = compare_steps(self.rounds, name, ORIGINAL, by_turns=self.bench.by_turns)
        outcome, reason = self.flaws.get(name) or self._judge_gain(name, over_base)
        ranked = self.expected[name]
        return Trial(
            stage=stage,
            variant=name,
            base=name_edits(self.base) if self.base else "",
            outcome=outcome,
            reason=reason,
            ratio=None if over_original is None else over_original.ratio,
            low=None if over_original is None else over_original.low,
            high=None if over_original is None else over_original.high,
            gain_ratio=None if over_base is None else over_base.ratio,
            gain_low=None if over_base is None else over_base.low,
            gain_high=None if over_base is None else over_base.high,
            peak_bytes=self.peaks.get(name),
            pairs=0 if over_base is None else over_base.rounds,
            expected_low_s=None if ranked is None else ranked.low_s,
            expected_high_s=None if ranked is None else ranked.high_s,
        )

    def _judge_gain(self, name: str, ratio: StepRatio | None) -> tuple[TrialOutcome, str]:
        if self.request.objective != "memory":
            return judge_ratio(ratio)
        before = self._get_base_peak()
        peak = self.peaks.get(name)
        if peak is None or before is None:
            return "undecided", "peak unknown"
        return ("improves" if peak < (1 - NOTABLE_SHARE) * before else "no gain"), ""

    def _get_base_peak(self) -> float | None:
        if self.base not in self.bench.peaks:
            self.bench.record(self.base)
        return self.bench.peaks[self.base]


def prove_edits(
    bench: ScriptBench,
    edits: Edits,
    budget_s: float,
    losses: LossReference,
    peaks: tuple[float | None, float | None],
    clock: Callable[[], float],
) -> Proof | None:
    """Measure the original and the script with all edits in new processes that chose nothing; None where it fails.

    `peaks` are the recorded peaks of both. At least as many rounds as an interval needs are measured.
    """
    end, name = clock() + budget_s, name_edits(edits)
    rounds: list[Mapping[str, RoundSteps]] = []
    compared = LossComparison("unknown", None, None)
    while len(rounds) < _PROOF_ROUNDS and (len(rounds) < LEAST_ROUNDS or clock() + 2 * bench.process_s < end):
        left = max(1, LEAST_ROUNDS - len(rounds))
        try:
            steps = bench.measure([(), edits], max((end - clock()) / left / 2, 1.0))
        except VariantFailedError as error:
            bench.report(f"{error.variant} fails: {error}")
            return None
        rounds.append(steps)
        losses.originals.append(steps[ORIGINAL].notes.losses)
        compared = compare_edited_losses(bench, edits, steps[name].notes.losses, losses)
        ratio = compare_steps(rounds, name, ORIGINAL, by_turns=bench.by_turns)
        if compared.verdict == "differs":
            break
        if len(rounds) >= LEAST_ROUNDS and ratio is not None and _is_narrow(ratio):
            break
    ratio = compare_steps(rounds, name, ORIGINAL, by_turns=bench.by_turns)
    if ratio is None:
        return None
    allowed = allows(compared, edits, bench.request.allow)
    return Proof(
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        verdict=_judge_speed(ratio),
        pairs=ratio.rounds,
        step_s=_compute_step_s(each[name].turns for each in rounds),
        baseline_step_s=_compute_step_s(each[ORIGINAL].turns for each in rounds),
        peak_bytes=peaks[1],
        baseline_peak_bytes=peaks[0],
        parity=compared.verdict if allowed else "differs",
        largest_difference=compared.largest,
        tolerance=compared.tolerance,
        active=None,
        eager_random=compared.eager_random,
    )


def _is_narrow(ratio: StepRatio) -> bool:
    """True if the interval is narrow, or narrow beside the gain that it is of."""
    if ratio.low is None or ratio.high is None:
        return False
    half = math.log(ratio.high / ratio.low) / 2
    return half <= max(math.log1p(_PRECISION), _OF_THE_GAIN * abs(math.log(ratio.ratio)))


def _judge_speed(ratio: StepRatio) -> SpeedVerdict:
    if ratio.low is None or ratio.high is None:
        return "inconclusive"
    if ratio.high < 1.0 and ratio.total < 1.0:
        return "faster"
    return "slower" if ratio.low > 1.0 else "inconclusive"


def _compute_step_s(turns: Iterable[StepSamples]) -> float | None:
    medians = [median(each.wall_s) for each in turns if each.wall_s]
    return fmean(medians) if medians else None
