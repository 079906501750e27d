"""Ranks the edits to try next on a script: by the findings of its recorded steps, else by simulating them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from perfkit.analysis.model.finding import Finding
from perfkit.core.errors import PerfkitError
from perfkit.core.spec import parse_variants
from perfkit.plan.advise.subject import make_run_subject
from perfkit.plan.advise.time_saving import estimate_time_saved
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.techniques.compose import compose_techniques
from perfkit.tune.model.tune_request import NOTABLE_SHARE
from perfkit.tune.model.tune_result import Objective, PatchInstruction, UntriedVariant
from perfkit.tune.patch.script_edits import ScriptEdit
from perfkit.tune.script.record_script import RecordedScript


class RankedEdit(NamedTuple):
    """An edit to try: `low_s` to `high_s` is the saving per step that findings or a simulation expect, None if unknown;
    `finding` is the id of the finding that it answers."""

    edit: ScriptEdit
    low_s: float | None = None
    high_s: float | None = None
    finding: str = ""


class EditRanking(NamedTuple):
    """Edits, the most promising first, and what is not worth a run."""

    edits: tuple[RankedEdit, ...]
    untried: tuple[UntriedVariant, ...]


def rank_edits(
    edits: Sequence[ScriptEdit], recorded: RecordedScript, objective: Objective, prefix: Sequence[str]
) -> EditRanking:
    """Rank edits that were recognized in the source, on top of those in `prefix`.

    What a simulation of the recorded step expects to save less than 1 % is untried, unless a finding asks for it. Where
    nothing is known, an edit comes last: only a measurement can tell.
    """
    findings = recorded.analysis.findings
    step = _load_step(recorded.folder)
    ranked, untried = [], []
    for edit in edits:
        if objective == "time" and edit.saves == "memory":
            untried.append(UntriedVariant(variant=edit.name, reason="saves memory, not time"))
            continue
        found = _find_answered(edit, findings)
        low_s, high_s = (None, None) if step is None else _simulate(edit, step)
        small = step is not None and high_s is not None and high_s < NOTABLE_SHARE * step.step_s
        if small and found is None and objective == "time":
            reason = "simulated in the recorded step, it saves less than 1 %"
            untried.append(UntriedVariant(variant="+".join((*prefix, edit.name)), reason=reason))
            continue
        if found is not None and high_s is None:
            low_s, high_s = 0.0, found.expected_s
        ranked.append(RankedEdit(edit, low_s, high_s, "" if found is None else found.id))
    memory = objective == "memory"
    ranked.sort(key=lambda each: (memory and each.edit.saves != "memory", not _is_sure(each.edit), -_expect_s(each)))
    return EditRanking(tuple(ranked), tuple(untried))


def list_instructions(findings: Iterable[Finding], answered: Sequence[ScriptEdit]) -> tuple[PatchInstruction, ...]:
    """What findings ask for that no edit has answered: to be done by hand."""
    return tuple(
        PatchInstruction(technique=", ".join(each.techniques) or "-", text=each.action, finding=each.id)
        for each in findings
        if each.severity == "gain" and each.action and not any(_answers(edit, each) for edit in answered)
    )


def _is_sure(edit: ScriptEdit) -> bool:
    """True if the edit takes away what no training needs: it costs nothing to know that it helps."""
    return edit.exact and not edit.technique


def _expect_s(ranked: RankedEdit) -> float:
    return ((ranked.low_s or 0.0) + (ranked.high_s or 0.0)) / 2


def _find_answered(edit: ScriptEdit, findings: Iterable[Finding]) -> Finding | None:
    """The finding with the largest expected gain that the edit answers."""
    answered = [each for each in findings if _answers(edit, each)]
    return max(answered, key=lambda each: each.expected_s or 0.0, default=None)


def _answers(edit: ScriptEdit, finding: Finding) -> bool:
    return finding.id in edit.findings or (bool(edit.technique) and edit.technique in finding.techniques)


def _load_step(folder: Path) -> TracedStep | None:
    """The traced step of a recording; None where there is none, as of a script that ended too early."""
    try:
        return make_run_subject(folder).step
    except PerfkitError:
        return None


def _simulate(edit: ScriptEdit, step: TracedStep) -> tuple[float | None, float | None]:
    """The simulated saving per step, from least to most; None where it is not known."""
    if not edit.technique:
        return None, None
    saving = estimate_time_saved(step, compose_techniques(parse_variants(edit.name)[0])).saving
    return (None, None) if saving is None else (saving.low, saving.high)
