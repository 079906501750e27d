"""Ranks techniques by what each saves in the recorded step of a measured variant, without planning."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.plan.advise.candidates import Candidate, Techniques, judge_loss_risk, select_candidates
from perfkit.plan.advise.subject import make_run_subject
from perfkit.plan.advise.time_saving import estimate_time_saved
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.store.technique_ranking import RankedTechnique, TechniqueRanking
from perfkit.techniques.base.technique import explain_inability
from perfkit.techniques.compose import are_compatible

_NOTABLE = 0.01  # of the step: less is not worth a run


def rank_techniques(
    folder: Path, variant: str, applied: tuple[str, ...], offered: Iterable[Techniques]
) -> TechniqueRanking | None:
    """Rank the `offered` techniques beside those `applied` in a suite's `variant`; None if its step was not recorded.

    Techniques that clash with the applied ones, cannot act on the suite's device or train something else are left out.
    Raises what `make_run_subject` does.
    """
    subject = make_run_subject(folder, variant=variant)
    if subject.step is None:
        return None
    own = tuple(spec for specs in parse_variants("+".join(applied)) for spec in specs) if applied else ()
    together = [(*own, *specs) for specs in offered if are_compatible((*own, *specs))]
    candidates, _ = select_candidates(together, subject._replace(target=None), "time", None)
    device = torch.device(subject.place.device)
    able = [each for each in candidates if not any(explain_inability(part, device) for part in each.techniques)]
    ranked: dict[tuple[str, ...], RankedTechnique] = {}
    for each in sorted(_estimate(subject.step, own, able), key=lambda each: -each.saving_s):
        ranked.setdefault(each.names, each)  # of a technique with several parameters the best
    return TechniqueRanking(of=variant, step_s=subject.step.step_s, techniques=tuple(ranked.values()))


def _estimate(step: TracedStep, own: Techniques, candidates: Iterable[Candidate]) -> Iterator[RankedTechnique]:
    """Candidates with a notable saving and comparable losses."""
    names = {spec.name for spec in own}
    for candidate in candidates:
        added = [technique for technique in candidate.techniques if technique.name not in names]
        if not added or not judge_loss_risk(added).comparable:
            continue
        time = estimate_time_saved(step, added)
        if time.saving is not None and time.saving.value >= _NOTABLE * step.step_s:
            yield RankedTechnique(
                technique=format_variant_label(tuple(spec for spec in candidate.specs if spec.name not in names)),
                variant=candidate.name,
                names=tuple(technique.name for technique in added),
                saving_s=time.saving.value,
                low_s=time.saving.low,
                high_s=time.saving.high,
            )
