"""Effects of techniques on a recorded step."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from perfkit.analysis.findings.change import NOTHING, Change, join_changes
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.plan.timing.efficiencies import Efficiencies
from perfkit.techniques.base.planning import NoEffect, UnknownEffect
from perfkit.techniques.base.technique import Technique


class AddressedWork(NamedTuple):
    """Work that takes less time, and work that is repeated.

    `most` is what goes at the most, `least` what goes for certain: without it the technique may save nothing. `again`
    is done once more, and costs what leaving it out would save. `costs_s` is other work: at the least and at the most.
    `why` says what of the step all this is about, `assumes` what it rests on.
    """

    why: str
    assumes: str
    most: Change
    least: Change = NOTHING
    again: Change = NOTHING
    costs_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class AdvisedView(TraceView):
    """A trace with its device's efficiencies, None if not measured."""

    efficiencies: Efficiencies | None = None


Answer = AddressedWork | UnknownEffect | NoEffect
Target = Callable[[AdvisedView, Technique], Answer]
Rule = Callable[[TraceView], Iterable[RuleResult]]


def make_rule_target(rules: Iterable[Rule], assumes: str, otherwise: str) -> Target:
    """A target with the changes of the findings of `rules`; without findings no effect, for the reason `otherwise`.

    Findings whose ops have no known ceiling tell what is addressed, and not what it saves.
    """

    def answer(view: TraceView, _technique: Technique) -> Answer:
        found = [result for rule in rules for result in rule(view)]
        results = [result for result in found if result.change]
        if not results:
            return UnknownEffect(f"no known ceiling for {found[0].finding.id}") if found else NoEffect(otherwise)
        reason = "; ".join(result.finding.evidence for result in results)
        return AddressedWork(reason, assumes, join_changes(result.change for result in results))

    return answer


def format_taken_time(view: TraceView, rows: Iterable[OpRow]) -> str:
    """Time of some rows, as evidence: `12.3 ms per step (4.5 %)`."""
    return view.show_time(sum(row.seconds for row in rows))
