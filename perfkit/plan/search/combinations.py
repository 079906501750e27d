"""Searches combinations of techniques that fit by plan, for the fastest.

A combination that does not fit with recomputation, shards or fused attention does not fit without; if it fits without
recomputation, none is needed. Combinations that cannot rule out each other may be planned at the same time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import inf
from typing import NamedTuple

from perfkit.analysis.model.plan import PlannedVariant, PlanSearch
from perfkit.core.spec import TechniqueSpec, format_variant_label, parse_variants
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.memory_savings import list_savings
from perfkit.plan.variants.plan import PlanOne
from perfkit.techniques.base.planning import MemoryPrice, MemorySaving
from perfkit.techniques.compose import are_compatible

# Plans combinations, and yields each with its plan. The next is drawn after the plans before it were yielded; when none
# is ready, one may be after the next plan.
PlanEach = Callable[[Iterable[Techniques]], Iterable[tuple[Techniques, PlannedVariant]]]

TIME, FLOPS = "predicted step time", "FLOPs per step"

Ladders = tuple[tuple[str, ...], ...]


class _Combination(NamedTuple):
    """A precision, and a position on each ladder; the last is recomputation."""

    precision: str
    levels: tuple[int, ...]

    def techniques(self, ladders: Ladders) -> Techniques:
        names = (self.precision, *(ladder[level] for ladder, level in zip(ladders, self.levels, strict=True)))
        return tuple(spec for name in names for spec in _parse_specs(name))


class _Candidates:
    """An iterator over the combinations to plan: each when no earlier one that is not yet planned can rule it out.

    So the same ones are planned as one after the other, however many at a time.
    """

    def __init__(self, combinations: Iterable[_Combination]) -> None:
        self._waiting = [*combinations]
        self._planning: list[_Combination] = []
        self.planned: dict[_Combination, PlannedVariant] = {}

    def __iter__(self) -> Iterator[_Combination]:
        return self

    def __next__(self) -> _Combination:
        for place, combination in enumerate(self._waiting):
            undecided = (*self._planning, *self._waiting[:place])
            if not any(_saves_more(other, combination) or _recomputes_less(other, combination) for other in undecided):
                self._planning.append(self._waiting.pop(place))
                return combination
        raise StopIteration

    @property
    def undecided(self) -> int:
        return len(self._waiting) + len(self._planning)

    def add_plan(self, combination: _Combination, variant: PlannedVariant) -> None:
        self._planning.remove(combination)
        self.planned[combination] = variant
        rules_out = {False: _saves_more, True: _recomputes_less, None: lambda *_: False}[variant.fits]
        self._waiting = [each for each in self._waiting if not rules_out(combination, each)]


def search_combinations(
    plan_each: PlanEach, probe: PlanOne, ranks: int, progress: Callable[[int, int, PlannedVariant], None]
) -> PlanSearch:
    """Search the compatible combinations.

    Args:
        plan_each: plans combinations, with their fit verdicts.
        probe: plans a technique alone, for the reason if it cannot act.
        ranks: number of ranks; shards need several.
        progress: receives the numbers of completed and total combinations after each plan.
    """
    savings = list_savings(ranks)
    ladders = tuple(_build_ladders(savings))
    # No ladder: weight casts are kept, too.
    precisions = ("", *(name for saving in savings if not saving.price.is_lossless for name in saving.searched))
    refused = _find_refused(probe, precisions, ladders)
    allowed = {precision: reasons for precision, reasons in refused.items() if precision not in refused[""]}
    left_out = {name: reason for name, reason in refused[""].items() if all(name in each for each in allowed.values())}
    left_out |= {name: refused[""][name] for name in precisions if name not in allowed}
    combinations = sorted(_list_combinations(allowed, ladders), key=lambda each: _get_order_key(each, ladders))
    candidates = _Candidates(combinations)
    asked = map(partial(_Combination.techniques, ladders=ladders), candidates)  # unlike a generator, it may go on
    by_label = {format_variant_label(each.techniques(ladders)): each for each in combinations}
    for techniques, variant in plan_each(asked):
        candidates.add_plan(by_label[format_variant_label(techniques)], variant)
        progress(len(combinations) - candidates.undecided, len(combinations), variant)
    planned = candidates.planned
    enough = [each for each in combinations if each in planned and planned[each].fits]
    needed = (each for each in enough if not any(_recomputes_less(other, each) for other in enough))
    fitting = [planned[each] for each in needed]
    timed = all(variant.step_s is not None for variant in fitting)
    return PlanSearch(
        fitting=tuple(sorted(fitting, key=_get_step_seconds if timed else _get_flops_key)),
        ordered_by=TIME if timed else FLOPS,
        combinations=len(combinations),
        planned=sum(not variant.reason for variant in planned.values()),
        left_out=left_out,
    )


def _build_ladders(savings: Sequence[MemorySaving]) -> Iterator[tuple[str, ...]]:
    """Build the ladders, each step of which takes no more memory than the one before; recomputation comes last."""
    for price in filter(lambda price: price.is_lossless, MemoryPrice):
        searched = [saving.searched for saving in savings if saving.price is price and saving.searched]
        if price is MemoryPrice.NOTHING:
            yield from (("", *names) for names in searched)
        elif searched:
            yield ("", *(name for names in searched for name in names))


def _find_refused(plan: PlanOne, precisions: Iterable[str], ladders: Ladders) -> dict[str, dict[str, str]]:
    """By precision, the techniques that cannot act here with it alone, with reasons; "" is without a precision.

    A precision may lift the refusal of a technique: fused attention on a GPU needs 16 bits.
    """
    names = [name for ladder in (precisions, *ladders) for name in ladder if name]
    alone = {name: reason for name in names if (reason := plan(_parse_specs(name)).reason)}
    refused = {"": alone}
    for precision in filter(None, precisions):
        refused[precision] = {}
        for name in alone if precision not in alone else ():
            specs = (*_parse_specs(precision), *_parse_specs(name))
            reason = alone[name] if name in precisions or not are_compatible(specs) else plan(specs).reason
            refused[precision] |= {name: reason} if reason else {}
    return refused


def _list_combinations(refused: Mapping[str, Mapping[str, str]], ladders: Ladders) -> Iterator[_Combination]:
    for precision, names in refused.items():
        acting = ([level for level, name in enumerate(ladder) if name not in names] for ladder in ladders)
        for levels in product(*acting):
            combination = _Combination(precision, levels)
            if are_compatible(combination.techniques(ladders)):
                yield combination


def _get_order_key(combination: _Combination, ladders: Ladders) -> tuple[int, bool, bool, int]:
    """Search order: largest saving first; of recomputation none, then all, then the levels between."""
    *others, recomputed = combination.levels
    most = len(ladders[-1]) - 1
    return -sum(others), recomputed != 0, recomputed != most, recomputed


def _saves_more(other: _Combination, combination: _Combination) -> bool:
    """True if `combination` does not fit where `other` does not."""
    return other.precision == combination.precision and all(
        more >= less for more, less in zip(other.levels, combination.levels, strict=True)
    )


def _recomputes_less(other: _Combination, combination: _Combination) -> bool:
    """True if `combination` is not needed where `other` fits."""
    *others, recomputed = combination.levels
    return other.precision == combination.precision and [*other.levels[:-1]] == others and other.levels[-1] < recomputed


def _parse_specs(name: str) -> tuple[TechniqueSpec, ...]:
    return parse_variants(name)[0] if name else ()


def _get_step_seconds(variant: PlannedVariant) -> float:
    return inf if variant.step_s is None else variant.step_s.total.value


def _get_flops_key(variant: PlannedVariant) -> tuple[float, float]:
    needed = variant.needed_bytes
    return variant.flops or inf, inf if needed is None else needed.value
