"""Chooses what a stage of a search tries, of all that may still improve the best variant so far."""

from collections.abc import Iterable, Iterator, Sequence

from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.techniques.compose import are_compatible
from perfkit.tune.model.tune_request import NOTABLE_SHARE, Techniques
from perfkit.tune.model.tune_result import Trial
from perfkit.tune.search.rank_candidates import RankedCandidate

# What cannot help in any combination.
_HOPELESS = ("failed", "skipped", "losses differ", "not applied", "slower", "no gain")
# Settings of techniques of the base that a stage tries, of each: few, since most change little.
_SETTINGS = 2


def list_open_candidates(
    ranked: Sequence[RankedCandidate], best: Techniques, trials: Sequence[Trial]
) -> tuple[RankedCandidate, ...]:
    """The candidates on top of `best` that are worth a trial, in order.

    First comes all that improved the variant before `best` beside what was accepted, together and each alone, then what
    may improve this one, of which more is measured, then the others as they are ranked. What was tried, or is hopeless,
    is left out, and what is offered together whose parts are offered alone, too.
    """
    undecided = {trial.variant for trial in trials if is_promising(trial)}
    tried = {trial.variant for trial in trials} - undecided
    hopeless = [get_added(trial) for trial in trials if trial.outcome in _HOPELESS]
    helpful = [get_added(trial) for trial in trials if trial.outcome == "improves"]
    candidates = {each.name: each for each in (*_join_improvements(best, trials), *ranked)}
    own = {spec.label for spec in best}
    added = {each.name: {spec.label for spec in each.specs} - own for each in candidates.values()}

    alone = [*added.values(), *map(get_added, trials)]

    def is_open(each: RankedCandidate) -> bool:
        new = added[each.name]
        together = len(new) > 1 and not each.is_joined and all({label} in alone for label in new)
        return each.name not in tried and new not in hopeless and not together

    def order(each: RankedCandidate) -> tuple[bool, bool, bool]:
        return not each.is_joined, added[each.name] not in helpful, each.name not in undecided

    return tuple(sorted(filter(is_open, candidates.values()), key=order))


def choose_candidates(
    candidates: Iterable[RankedCandidate], best: Techniques, count: int
) -> tuple[RankedCandidate, ...]:
    """The first `count` candidates, with one setting of each technique that is new, and few of others."""
    chosen: list[RankedCandidate] = []
    seen: dict[frozenset[str], int] = {}
    for each in candidates:
        if len(chosen) == count:
            break
        names = frozenset(spec.name for spec in each.specs if spec not in best)
        seen[names] = seen.get(names, 0) + 1
        if seen[names] <= (_SETTINGS if each.is_setting else 1):
            chosen.append(each)
    return tuple(chosen)


def _join_improvements(best: Techniques, trials: Sequence[Trial]) -> Iterator[RankedCandidate]:
    """All that improved the same variant as the technique accepted last, on top of `best` together."""
    accepted = [trial for trial in trials if trial.outcome == "accepted"]
    if not accepted or accepted[-1].variant != format_variant_label(best):
        return
    base = accepted[-1].base
    improved = [trial for trial in trials if trial.outcome == "improves" and trial.base == base]
    joined = best
    for trial in sorted(improved, key=lambda trial: trial.gain_ratio or 1.0):
        (specs,) = parse_variants(trial.variant)
        names = {spec.name for spec in joined}
        new = tuple(spec for spec in specs if spec.name not in names)
        if {spec.label for spec in new} == get_added(trial) and are_compatible((*joined, *new)):
            joined = (*joined, *new)
    if len(joined) > len(best) + 1:
        yield RankedCandidate(joined, is_joined=True)


def is_promising(trial: Trial) -> bool:
    """True if more processes may prove an improvement."""
    return trial.outcome == "undecided" and trial.gain_ratio is not None and trial.gain_ratio < 1 - NOTABLE_SHARE


def get_added(trial: Trial) -> set[str]:
    """The labels of the techniques that a trial added to its base."""
    return set(trial.variant.split("+")) - set(trial.base.split("+"))
