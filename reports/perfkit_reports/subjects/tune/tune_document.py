"""The report on a search: the answer, the trials as a chart and a table, and what to run."""

from collections.abc import Iterator

from perfkit.core import units
from perfkit.core.spec import BASELINE
from perfkit.store.summary import SUMMARY_FILE, TUNE_FILE, ReportSummary
from perfkit.tune.model.tune_result import (
    PATCH_FILE,
    PatchInstruction,
    ProgramPatch,
    SwitchedTechnique,
    Trial,
    TrialOutcome,
    TuneResult,
    UntriedVariant,
)
from perfkit_reports.cells import format_factor
from perfkit_reports.document.blocks import Block, Section, Table, Text, Tile
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column, build_plain_data
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import Style
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.subjects.tune import search_path
from perfkit_reports.subjects.tune.next_commands import build_commands
from perfkit_reports.subjects.tune.search_path import ACCEPTED, EXCLUDED, IMPROVES, NO_BETTER, SearchPoint
from perfkit_reports.subjects.tune.stages_table import build_stages
from perfkit_reports.subjects.tune.tune_headline import build_headline, format_speed_interval, list_lead

_STYLES: dict[TrialOutcome, Style] = {
    "accepted": ACCEPTED,
    "improves": IMPROVES,
    "no gain": NO_BETTER,
    "undecided": NO_BETTER,
    "slower": NO_BETTER,
}
_TONES: dict[TrialOutcome, str] = {"accepted": "good", "improves": "good", "undecided": "unsure"}
_NAMED = 10  # points with a label


def build_document(result: TuneResult) -> Document:
    """Draw a search: its answer first."""
    return Document(
        kind="tune",
        title=f"Search for the best variant of {result.workload}",
        headline=build_headline(result),
        perfkit=result.perfkit,
        created_at=result.created_at,
        eyebrow=("Tune", result.workload, result.device, result.created_at[:10]),
        lead=tuple(list_lead(result)),
        tiles=tuple(_build_tiles(result)),
        summary=(
            *_build_techniques(result),
            *_build_chart(result),
            *_build_trials(result),
            *build_stages(result),
            *_build_patch(result),
            *build_commands(result),
        ),
        sections=(
            Section("untried", "Not tried", tuple(_build_untried(result)), folded=True),
            Section(
                "method",
                "Method",
                (Text(id="how", lines=_METHOD if result.script is None else _SCRIPT_METHOD, style="list"),),
                folded=True,
            ),
        ),
        data=(
            build_plain_data("trials", Trial, result.trials),
            build_plain_data("untried", UntriedVariant, result.untried),
        ),
        raw={TUNE_FILE: result, SUMMARY_FILE: _summarize(result)},
        saves=TUNE_FILE,
    )


def _summarize(result: TuneResult) -> ReportSummary:
    return ReportSummary(
        kind="tune",
        name=result.workload,
        created_at=result.created_at,
        device=result.device,
        headline=build_headline(result),
    )


def _build_tiles(result: TuneResult) -> Iterator[Tile]:
    proof = result.proof
    if proof is not None:
        interval = format_speed_interval(proof.low, proof.high)
        yield Tile("Speed-up", Cell(format_factor(1 / proof.ratio), detail=interval, value=1 / proof.ratio))
        if proof.step_s is not None and proof.baseline_step_s is not None:
            before = f"baseline {units.format_seconds(proof.baseline_step_s)}"
            yield Tile("Step time", Cell(units.format_seconds(proof.step_s), detail=before, value=proof.step_s))
        if proof.peak_bytes is not None and proof.baseline_peak_bytes is not None:
            before = f"baseline {units.format_bytes(proof.baseline_peak_bytes)}"
            yield Tile("Peak memory", Cell(units.format_bytes(proof.peak_bytes), detail=before, value=proof.peak_bytes))
    stages = len({trial.stage for trial in result.trials})
    yield Tile(
        "Trials",
        Cell(
            str(len(result.trials)),
            detail=f"in {stages} stage{'' if stages == 1 else 's'}, {units.format_seconds(result.spent_s)}",
        ),
    )


def _build_techniques(result: TuneResult) -> Iterator[Block]:
    """What the best variant switches on, a row per technique."""
    if result.techniques:
        yield Table(
            id="best",
            title="Switch on",
            columns=_TECHNIQUE_COLUMNS,
            rows=result.techniques,
            what="technique",
            weight=Weight.BRIEF,
            whole=True,
        )


def _build_chart(result: TuneResult) -> Iterator[Block]:
    if result.baseline_peak_bytes is None or result.baseline_step_s is None:
        return
    step_s = result.baseline_step_s if result.proof is None else result.proof.baseline_step_s or result.baseline_step_s
    baseline = SearchPoint(BASELINE, result.baseline_peak_bytes, step_s, NO_BETTER, "top center")
    points = {trial.variant: point for trial in result.trials if (point := _make_point(trial, step_s)) is not None}
    if not points:
        return
    path = [baseline, *(points[trial.variant] for trial in result.accepted if trial.variant in points)]
    legend = (
        ("accepted", ACCEPTED),
        ("improves, not best", IMPROVES),
        ("no proven gain", NO_BETTER),
        ("does not count", EXCLUDED),
    )
    yield search_path.build_chart([baseline, *points.values()], path, legend)


def _make_point(trial: Trial, step_s: float) -> SearchPoint | None:
    if trial.ratio is None or trial.peak_bytes is None:
        return None
    style = _STYLES.get(trial.outcome, EXCLUDED)
    told = (
        trial.outcome,
        f"{format_factor(1 / trial.ratio)} as fast as the baseline",
        units.format_bytes(trial.peak_bytes),
    )
    return SearchPoint(
        trial.variant,
        trial.peak_bytes,
        trial.ratio * step_s,
        style,
        "bottom center" if trial.outcome == "accepted" else "",
        told,
    )


def _build_trials(result: TuneResult) -> Iterator[Block]:
    yield from make_table(
        "trials-table",
        "Trials",
        _TRIAL_COLUMNS,
        sorted(result.trials, key=lambda trial: (trial.stage, trial.outcome != "accepted", trial.ratio or 9e9)),
        "trial",
        weight=Weight.BRIEF,
        limit=len(result.trials),
    )


def _build_patch(result: TuneResult) -> Iterator[Block]:
    """The changes of the workload's file, whether they hold, and what is left to do by hand."""
    patch = result.patch
    if patch is None:
        return
    yield Text(id="patch", title="Patch", lines=(_describe_patch(patch),), weight=Weight.BRIEF)
    if patch.diff:
        yield Text(id="diff", lines=tuple(patch.diff.splitlines()), style="code")
    yield from make_table("by-hand", "By hand", _HAND_COLUMNS, patch.by_hand, "technique", data="")


def _describe_patch(patch: ProgramPatch) -> str:
    if patch.proof is None:
        return f"Not measured: {patch.reason}."
    gain = f"{format_factor(1 / patch.proof.ratio)} ({format_speed_interval(patch.proof.low, patch.proof.high)})"
    if not patch.holds:
        return f"Measured {gain}, but not to be applied: {patch.reason}."
    return f"{PATCH_FILE} makes {patch.path} {gain} as fast, measured in {patch.proof.pairs} pairs of processes."


def _build_untried(result: TuneResult) -> Iterator[Block]:
    yield from make_table("untried-table", "Not tried", _UNTRIED_COLUMNS, result.untried, "variant", show_title=False)
    if not result.untried:
        yield Text(id="all-tried", lines=("Every offered variant was measured.",), style="empty")


def _make_speed_cell(trial: Trial) -> Cell:
    if trial.ratio is None:
        return make_unknown_cell(trial.reason or "not compared")
    return Cell(
        format_factor(1 / trial.ratio), detail=format_speed_interval(trial.low, trial.high), value=1 / trial.ratio
    )


def _make_gain_cell(trial: Trial) -> Cell:
    if trial.gain_ratio is None:
        return make_unknown_cell(trial.reason or "not compared")
    interval = format_speed_interval(trial.gain_low, trial.gain_high)
    return Cell(format_factor(1 / trial.gain_ratio), detail=interval, value=1 / trial.gain_ratio)


def _make_peak_cell(trial: Trial) -> Cell:
    if trial.peak_bytes is None:
        return make_unknown_cell(trial.reason or "not measured")
    return Cell(units.format_bytes(trial.peak_bytes), value=trial.peak_bytes)


def _make_expected_cell(trial: Trial) -> Cell:
    if trial.expected_low_s is None or trial.expected_high_s is None:
        return make_unknown_cell("its effect on the time is not simulated")
    # What may save time is expected to cost none; what saves memory costs some.
    low_s = trial.expected_low_s if trial.expected_high_s < 0.0 else max(trial.expected_low_s, 0.0)
    low = units.format_seconds(low_s)
    high = units.format_seconds(trial.expected_high_s)
    return Cell(high if low == high else f"{low} to {high}", value=trial.expected_high_s)


def _make_outcome_cell(trial: Trial) -> Cell:
    return Cell(trial.outcome, id=trial.outcome, detail=trial.reason, tone=_TONES.get(trial.outcome, ""))


_TECHNIQUE_COLUMNS: tuple[Column[SwitchedTechnique], ...] = (
    Column("Technique", lambda row: Cell(row.label), numeric=False, weight=Weight.BRIEF),
    Column("What it does", lambda row: Cell(row.summary), numeric=False, wrap=True, weight=Weight.BRIEF),
    Column("Costs", lambda row: Cell(row.costs), numeric=False, wrap=True),
)
_TRIAL_COLUMNS: tuple[Column[Trial], ...] = (
    Column("Variant", lambda trial: Cell(trial.variant), numeric=False, weight=Weight.BRIEF),
    Column("Stage", lambda trial: Cell(str(trial.stage), value=trial.stage)),
    Column("Outcome", _make_outcome_cell, numeric=False, pill=True, weight=Weight.BRIEF),
    Column("Speed-up", _make_speed_cell, help="over the baseline, with its 95 % interval", weight=Weight.BRIEF),
    Column("Over its base", _make_gain_cell, help="over the variant that it extends"),
    Column("Peak memory", _make_peak_cell, weight=Weight.BRIEF),
    Column("Simulated saving", _make_expected_cell, help="per step, before the trial"),
)
_HAND_COLUMNS: tuple[Column[PatchInstruction], ...] = (
    Column("Technique", lambda row: Cell(row.technique), numeric=False),
    Column("What to do", lambda row: Cell(row.text), numeric=False, wrap=True),
)
_UNTRIED_COLUMNS: tuple[Column[UntriedVariant], ...] = (
    Column("Variant", lambda row: Cell(row.variant), numeric=False),
    Column("Reason", lambda row: Cell(row.reason), numeric=False, wrap=True),
)
_METHOD = (
    "Each stage adds techniques to the best variant so far and compares them with it in interleaved rounds of new "
    "processes, until each is certainly faster or slower. One without a gain in two rounds is measured no further.",
    "A trial counts only if each technique was active by its own checks and the losses are as allowed. The best "
    "one whose interval excludes no gain over its base is accepted.",
    "The best variant is measured again in new processes, since the best of many trials looks better than it is. The "
    "headline has that gain; the table has the trials'. Once it is known, rounds of the variant and the best technique "
    "alone follow, until the margin between them is proven or the time is used up.",
    "Of a new technique, a stage tries one setting; of an accepted one, other settings follow. Improvements of one "
    "stage are tried together in the next. The trace of the best variant is analyzed anew in each stage.",
    "Stages end when nothing improves or the budget is used up; a part of it is kept for the proof.",
)
_SCRIPT_METHOD = (
    "Each edit is written into a copy of the script's folder. In each round the original and some edits have a new "
    "process each and step by turns.",
    "A trial counts only if the losses of the first steps follow the original's, within the edits' tolerance or within "
    "ten times of what one rounding of the parameters makes of them. The best one whose interval excludes no gain over "
    "its base is accepted.",
    "The whole patch is measured again in new processes, since the best of many trials looks better than it is. The "
    "headline has that gain; the table has the trials'.",
    "After each accepted edit the script is recorded anew. Stages end when nothing improves or the budget is used up.",
)
