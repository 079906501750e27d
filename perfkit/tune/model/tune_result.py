"""The result of tuning, stored as `tune.json`: every trial with its outcome, and the best variant, measured again."""

from pathlib import Path
from typing import ClassVar, Literal

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.estimate import ParityVerdict, SpeedVerdict
from perfkit.core.files import read_json
from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit.store.summary import TUNE_FILE

TUNE_VERSION = 1
TRIALS_FOLDER = "trials"  # the suite of all trials, in the folder of `tune.json`
PROOF_FOLDER = "proof"  # the suite that measures the best variant again
PATCH_FOLDER = "patch"  # the patched program, and its pairs with the original
PATCH_FILE = "tuned.patch"

Objective = Literal["time", "memory", "cost"]
AllowedLosses = Literal["lossless", "tolerance", "any"]
TrialOutcome = Literal[
    "accepted",
    "improves",
    "no gain",
    "slower",
    "undecided",
    "losses differ",
    "not applied",
    "over memory limit",
    "failed",
    "skipped",
]
TuneConclusion = Literal["proven", "not proven", "no gain", "interrupted"]

TRIAL_OUTCOMES: dict[TrialOutcome, str] = {
    "accepted": "The best proven improvement of its stage; the next stage builds on it.",
    "improves": "A proven improvement, but another variant of the stage is better.",
    "no gain": "Less than 1 % better than the variant it extends.",
    "slower": "Certainly worse than the variant it extends.",
    "undecided": "The interval allows both an improvement and none.",
    "losses differ": "It trains differently from the baseline, or its losses are unknown.",
    "not applied": "A technique had no effect, by its own checks.",
    "over memory limit": "Its peak memory lies above the limit.",
    "failed": "Its run failed.",
    "skipped": "It cannot run here.",
}
TUNE_CONCLUSIONS: dict[TuneConclusion, str] = {
    "proven": "The best variant improves on the baseline in new processes, too.",
    "not proven": "The best variant's improvement did not hold, or was not measured again.",
    "no gain": "No trial was a proven improvement.",
    "interrupted": "The search has not ended; the best variant so far was not measured again.",
}


class Trial(Struct):
    """One measured variant of a `stage`, from 1; `base` is the variant that it extends, "" for the baseline.

    `ratio` is its step time over the baseline's (of a unit where batches differ), with its 95 % interval; `gain_ratio`
    the same over that of `base`. Figures are None where they were not measured. `expected_low_s` to `expected_high_s`
    is the simulated saving per step, None where none was simulated.
    """

    stage: int
    variant: str
    base: str
    outcome: TrialOutcome
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    gain_ratio: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    peak_bytes: float | None = None
    pairs: int = 0
    expected_low_s: float | None = None
    expected_high_s: float | None = None


class SearchStage(Struct):
    """One stage of a search, from 1, on top of the variant `base`, "" for the baseline.

    `finding` is the id of the finding of its trace with the largest gain, `title` what it says, and `techniques` those
    that answer it; "" without a finding or a trace.
    """

    number: int
    base: str
    finding: str = ""
    title: str = ""
    techniques: tuple[str, ...] = ()


class UntriedVariant(Struct):
    """A variant that was not measured, and why."""

    variant: str
    reason: str


class Proof(Struct):
    """The best variant against the baseline in new processes, which chose nothing: the gain to report.

    Times are seconds per step; `ratio` is variant / baseline with its 95 % interval over `pairs` of processes.
    `single_ratio` is the same over the best technique alone, where the variant has several. With `eager_random` losses
    are of compiled code that drew the random numbers of eager code; what was timed draws its own.
    """

    ratio: float
    low: float | None
    high: float | None
    verdict: SpeedVerdict
    pairs: int
    step_s: float | None
    baseline_step_s: float | None
    peak_bytes: float | None
    baseline_peak_bytes: float | None
    parity: ParityVerdict
    largest_difference: float | None
    tolerance: float | None
    active: bool | None
    single_ratio: float | None = None
    single_low: float | None = None
    single_high: float | None = None
    eager_random: bool = False


class PatchInstruction(Struct):
    """What to do by hand for a technique; `finding` is the id of the finding that says so, "" without one."""

    technique: str
    text: str
    finding: str = ""


class TunedScript(Struct):
    """A script that was tuned in place of a workload: its path, and its own arguments. `losses_seen` says whether its
    losses could be compared: without them nothing that changes numbers is accepted."""

    path: str
    arguments: tuple[str, ...] = ()
    losses_seen: bool = True


class PatchProof(Struct):
    """The patched program against the original: `ratio` of step times with its 95 % interval over `pairs` of processes,
    and the largest relative difference of the first losses on the same data, None where none were recorded."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int
    largest_difference: float | None


class ProgramPatch(Struct):
    """The best variant written into the workload's file, as a unified `diff`; "" where nothing could be written.

    `written` are the techniques in it, `by_hand` what is left to do. `holds` is True if the patched program was
    measured to be faster with losses within `tolerance`; `reason` says why it was not measured, or does not hold.
    `apply` is the command that writes it, and `undo` the one that takes it back; "" unless it holds.
    """

    path: str
    diff: str
    written: tuple[str, ...]
    by_hand: tuple[PatchInstruction, ...]
    holds: bool = False
    reason: str = ""
    tolerance: float | None = None
    proof: PatchProof | None = None
    apply: str = ""
    undo: str = ""


class SwitchedTechnique(Struct):
    """A technique of the best variant, with its parameters: what it does, and what it costs.

    `verify` is a command that measures the variant with it and without it, `undo` one that measures the variant without
    it; "" for launchers of a cluster.
    """

    label: str
    summary: str
    costs: str
    verify: str = ""
    undo: str = ""


class TuneResult(DisplayMixin, Struct):
    """A search for the best variant of a workload.

    `technique` is what was offered. `best` is its name, "" where the baseline is best, and `techniques` are its parts;
    `best_single` is that of the best technique alone. `limit_bytes` is the memory limit, None without one. `budget_s`
    is what the search was given, `spent_s` what it took. `folder` is the search's, as it was named. `script` is what
    was tuned in place of a workload; `best` then names edits.
    """

    subject: ClassVar[str] = "tune"
    schema_version: int = TUNE_VERSION
    created_at: str
    perfkit: str
    command: str
    folder: str = ""
    workload: str
    script: TunedScript | None = None
    device: str
    device_type: str = "cpu"
    technique: str
    objective: Objective
    allow: AllowedLosses
    limit_bytes: float | None
    budget_s: float
    spent_s: float
    conclusion: TuneConclusion
    baseline_step_s: float | None = None
    baseline_peak_bytes: float | None = None
    best: str = ""
    best_single: str = ""
    techniques: tuple[SwitchedTechnique, ...] = ()
    stages: tuple[SearchStage, ...] = ()
    trials: tuple[Trial, ...] = ()
    untried: tuple[UntriedVariant, ...] = ()
    proof: Proof | None = None
    patch: ProgramPatch | None = None
    end_reason: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def accepted(self) -> tuple[Trial, ...]:
        """The accepted trials, in the order of their stages."""
        return tuple(trial for trial in self.trials if trial.outcome == "accepted")


def read_tune_result(folder: Path) -> TuneResult:
    """Read the result that `perfkit tune` wrote to a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / TUNE_FILE, TuneResult, remedy="tune again")
