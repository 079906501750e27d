"""The headline of advice, and what qualifies it."""

from collections.abc import Iterator, Mapping

from perfkit.core.units import format_signed_percent
from perfkit.plan.advise.advice import Advice, AdviceOption, Goal
from perfkit_reports.subjects.advice import advice_cells

_GOALS: Mapping[Goal, str] = {
    "time": "the step time",
    "memory": "the peak memory",
    "batch": "the largest batch",
    "cost": "the time per sample",
}
TIMES: Mapping[Goal, str] = {
    "time": "step time",
    "memory": "step time",
    "batch": "step time",
    "cost": "time per sample",
}
_BASES = {
    "simulated": "Simulated in the recorded step, one technique at a time or combined.",
    "planned": "Planned with fake tensors.",
}


def build_headline(advice: Advice) -> str:
    """`Use amp+compile: step time -38 % (-45 to -20), peak memory -16 %.`, or what fits where that does not."""
    best, fitting = advice.best, advice.fitting
    if fitting is not None:
        effects = ", ".join(_list_effects(advice, fitting))
        return f"Use {fitting.name}, which changes results: {effects}. Nothing with comparable losses fits."
    if best is not None and best.fits is False:
        return f"Nothing fits; {best.name} comes closest."
    if best is not None:
        return f"Use {best.name}: {', '.join(_list_effects(advice, best))}."
    if is_goal_unknown(advice):
        return f"Effects on {_GOALS[advice.goal]} are unknown."
    return f"No technique that keeps the results improves {_GOALS[advice.goal]} by 1 % or more."


def is_goal_unknown(advice: Advice) -> bool:
    """True if what the options are ranked by is known of none."""
    figures = {"memory": "saving_bytes", "batch": "largest_batch"}
    return all(getattr(option, figures.get(advice.goal, "saving_s")) is None for option in advice.options)


def list_alternatives(advice: Advice) -> Iterator[AdviceOption]:
    """Options that may improve the goal, and are not the best combination: one for each set of techniques."""
    seen = set() if advice.best is None else {_name_techniques(advice.best)}
    for option in advice.options:
        names = _name_techniques(option)
        if names not in seen and advice_cells.is_worthwhile(option, advice.goal):
            seen.add(names)
            yield option


def _name_techniques(option: AdviceOption) -> frozenset[str]:
    """The techniques without their parameters."""
    return frozenset(name.partition(":")[0] for name in option.name.split("+"))


def list_remarks(advice: Advice) -> Iterator[str]:
    """The first alternative to the best combination, measurements, and the basis of the figures."""
    best = advice.best
    first = next(iter(list_alternatives(advice)), None)
    if first is not None:
        lead = "Alone" if best is not None and "+" in best.name else "Next"
        if not first.risk.comparable:
            lead = "Changes results"
        yield f"{lead}: {first.name}, {', '.join(_list_effects(advice, first)) or 'no known saving'}."
    if best is not None and best.measured is not None and best.measured.time_ratio is not None:
        yield f"Measured here: {TIMES[advice.goal]} {advice_cells.format_measured_time(best.measured)}."
    bases = dict.fromkeys(option.saving_s.basis for option in advice.options if option.saving_s is not None)
    for basis in bases or ("planned",):
        yield _BASES[basis]
    if not advice.measured_folder:
        yield "Nothing was trained: measure before you rely on it."


def _list_effects(advice: Advice, option: AdviceOption) -> Iterator[str]:
    time = advice_cells.make_time_cell(option)
    if option.saving_s is not None:
        yield f"{TIMES[advice.goal]} {time.text}"
    if option.saving_bytes is not None:
        yield f"peak memory {format_signed_percent(advice_cells.compute_memory_change(option), 0)}"
    if advice.goal == "batch" and option.largest_batch is not None:
        yield f"largest batch about {option.largest_batch:,}"
    if option.fits is not None:
        yield "fits" if option.fits else "does not fit"
