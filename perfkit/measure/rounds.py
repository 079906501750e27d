"""Rounds of fresh processes, until every comparison is precise enough or the time is used up.

A round is one process (or one a rank) of the baseline and of each variant whose comparison is not precise yet. On a CPU
they are resident together, as far as memory allows, and step by turns; elsewhere they alternate.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec
import psutil

from perfkit.core.sampling import LEAST_ROUNDS, compute_half_width, is_narrow, predict_round_count
from perfkit.core.spec import RunSpec
from perfkit.core.units import format_percent, format_seconds
from perfkit.measure.race import find_race_bases, is_gain_known, is_margin_known, is_race_decided
from perfkit.measure.resident_groups import split_by_memory, split_by_speed
from perfkit.measure.round_pairs import compute_first_step_s, compute_pair_log, list_shared_repeats
from perfkit.measure.run_events import Event, RoundFinished, RoundStarted
from perfkit.measure.schedule import BenchSchedule, ScheduledRun
from perfkit.measure.suite_writer import SuiteWriter
from perfkit.store.layout import SuiteSampling
from perfkit.store.request import BenchRequest

BUDGET_S = 300.0

# Without a budget, this many rounds are measured however long they take: fewer decide nothing. To limit the time of
# many variants, the turns of these rounds take no more than the budget.
_LEAST_ROUNDS = 3

# What is free is not all taken: the page cache is what a workload's data is read from.
_MEMORY_SHARE = 0.8


def measure_rounds(
    making: SuiteWriter,
    schedule: BenchSchedule,
    request: BenchRequest,
    progress: Callable[[Event], None],
    *,
    spent_s: float = 0.0,
) -> None:
    """Measure rounds of all variants whose first run ended well; the session's `sampling` says how it went.

    A budget that was asked for has `spent_s` of it used up by the first runs.

    Earlier measurements count, of this session and of earlier ones. With several numbers of ranks, only those of this
    session do, and baselines are timed without a reference, since sizes are compared with each other and timings of
    different days are not comparable.
    """
    if request.rounds != 0:
        used_s = 0.0 if request.budget_s is None else spent_s
        _RoundMeasurement(making, schedule, request, progress, used_s=used_s).measure()


@dataclass
class _RoundMeasurement:
    """`references` has each variant's reference: itself if there is none, and then its own step time is to be precise.
    `logs` has a log ratio (or the log of a step time) per round, `round_s` the rounds' durations, and `cost_s` the last
    duration of each variant with those it was measured with. `bases` decide when a variant is measured no further: the
    references, or the variant that others extend; `race_logs` are over these. `before` is this session's state before
    an interruption. Of a variant's first run, `step_s` is the time of a step, and `resident_bytes` its memory."""

    making: SuiteWriter
    schedule: BenchSchedule
    request: BenchRequest
    progress: Callable[[Event], None]
    clock: Callable[[], float] = time.monotonic
    available: Callable[[], float] = lambda: float(psutil.virtual_memory().available)
    used_s: float = 0.0
    references: dict[str, str] = field(init=False)
    logs: dict[str, list[float]] = field(init=False)
    specs: dict[str, RunSpec] = field(init=False)
    step_s: dict[str, float] = field(init=False)
    resident_bytes: dict[str, float] = field(init=False)
    round_s: list[float] = field(init=False, default_factory=list)
    cost_s: dict[str, float] = field(init=False, default_factory=dict)
    bases: dict[str, str] = field(init=False)
    race_logs: dict[str, list[float]] = field(init=False)
    repeat: int = field(init=False)
    before: SuiteSampling = field(init=False)

    def __post_init__(self) -> None:
        self.repeat = self.making.next_repeat - 1
        self.before = self.making.suite.sessions[-1].sampling or SuiteSampling()
        self.specs = {
            run.spec.variant: msgspec.structs.replace(run.spec, passes=(), schedule=self.request.schedule)
            for run in self.schedule.runs
            if run.spec.variant not in self.making.ended
        }
        self.step_s = {name: compute_first_step_s(self.making, spec) for name, spec in self.specs.items()}
        self.resident_bytes = {name: self.making.resident_bytes(spec) or math.inf for name, spec in self.specs.items()}
        against = {name: self.schedule.baselines[name] for name in self.specs}
        compared = {name: other for name, other in against.items() if other != name and other in self.specs}
        alone = {
            name: name
            for name in self.specs
            if name not in compared
            and name not in compared.values()
            # Otherwise it has been measured, with others.
            and (self.request.world_sizes or (self.making.first_repeat(name) or 0) >= self._begun)
        }
        self.references = compared | alone
        self.logs = {name: [] for name in self.references}
        self.bases = find_race_bases(self.request, self.specs, self.references)
        self.race_logs = {
            name: self.logs[name] if base == self.references[name] else [] for name, base in self.bases.items()
        }

    def measure(self) -> None:
        start = self.clock() - self.before.seconds
        state = SuiteSampling(
            precision=None if self._is_fixed else self.request.precision,
            budget_s=None if self._is_fixed else self._given_budget_s,
            rounds=self.before.rounds,
            seconds=self.before.seconds,
        )
        self.making.update_session(sampling=state)
        self._learn_earlier()
        while not (ended := self._find_end_reason(self.clock() - start)):
            self._run_round(self.clock() - start)
            state = msgspec.structs.replace(state, rounds=self._done, seconds=self.clock() - start)
            self.making.update_session(sampling=state)
        self.making.update_session(sampling=msgspec.structs.replace(state, end_reason=ended))

    @property
    def _is_fixed(self) -> bool:
        """True if a number of rounds was asked for."""
        return self.request.rounds is not None

    @property
    def _begun(self) -> int:
        """The first repeat of this session."""
        return self.making.suite.sessions[-1].first_repeat

    @property
    def _done(self) -> int:
        return self.before.rounds + len(self.round_s)

    @property
    def _given_budget_s(self) -> float:
        return BUDGET_S if self.request.budget_s is None else self.request.budget_s

    @property
    def _budget_s(self) -> float:
        """What first runs left of it."""
        return max(0.0, self._given_budget_s - self.used_s)

    def _list_open_comparisons(self) -> list[str]:
        """The comparisons that are not precise yet, and can continue."""
        return [
            name
            for name, reference in self.references.items()
            if not {name, reference, self.bases[name]} & self.making.ended
            and (self._is_fixed or not self._is_precise(name))
            and not (self.request.race and self._is_decided(name))
        ]

    def _is_precise(self, name: str) -> bool:
        """True if a variant's interval is narrow, and that of its margin; what others extend is measured with them."""
        if self.request.race or not self.request.race_base:
            return is_narrow(self.race_logs[name], self.request.precision)
        margin = is_margin_known(self.race_logs[name], self.request.precision)
        return self._is_extended(name) or (margin and not self._needs_reference(name))

    def _needs_reference(self, name: str) -> bool:
        """False once only a variant's margin over the one that it extends is still to be measured."""
        has_margin = not self.request.race and self.bases[name] != self.references[name]
        return not (has_margin and is_gain_known(self.logs[name], self.request.precision))

    def _is_extended(self, name: str) -> bool:
        return any(name == base for other, base in self.bases.items() if other != name)

    def _is_decided(self, name: str) -> bool:
        """True if a race needs no more rounds of a variant, also for the one that others extend."""
        rivals = [logs for other, logs in self.logs.items() if other != name and self.references[other] != other]
        if self.references[name] == name:
            return False
        return self._is_extended(name) or is_race_decided(self.race_logs[name], self.logs[name], rivals)

    def _find_end_reason(self, spent_s: float) -> str:
        """The reason to stop; "" if another round follows."""
        done, rounds = self._done, self.request.rounds
        if not any(not {name, reference} & self.making.ended for name, reference in self.references.items()):
            return "nothing left to compare"
        if not self._list_open_comparisons():
            within = f"every interval is within {format_percent(self.request.precision)}"
            return f"{within}, or shows which is faster" if self.request.race else within
        if rounds is not None:
            requested = "1 round was requested" if rounds == 1 else f"{rounds} rounds were requested"
            return "" if done < rounds else requested
        limit = f"the time limit of {format_seconds(self._given_budget_s)} is reached"
        return "" if self._choose_next(spent_s) else limit

    def _choose_next(self, spent_s: float) -> list[str]:
        """Choose the variants of the next round: those that are not precise yet, as far as they fit into the budget."""
        least = _LEAST_ROUNDS if self.request.budget_s is None else 1
        if self.request.rounds is not None or self._done < least:
            return self._list_open_comparisons()
        # After an interruption, only the cost of whole rounds is known, not that of each variant.
        usual_s = self.before.seconds / max(self.before.rounds, 1)
        return [
            name for name in self._list_open_comparisons() if spent_s + self.cost_s.get(name, usual_s) <= self._budget_s
        ]

    def _estimate_left_s(self, spent_s: float) -> float | None:
        """Estimate the time of the remaining rounds, from those so far."""
        if not self.round_s:
            return None
        round_s = median(self.round_s)
        if self.request.rounds is not None:
            return (self.request.rounds - self._done) * round_s
        needed = [
            (predict_round_count(self.race_logs[name], self.request.precision) or LEAST_ROUNDS)
            - len(self.race_logs[name])
            for name in self._choose_next(spent_s)
        ]
        return min(max(needed, default=0) * round_s, max(self._budget_s - spent_s, round_s))

    def _run_round(self, spent_s: float) -> None:
        number, begun, going_on = self._done + 1, self.clock(), self._choose_next(spent_s)
        references = dict.fromkeys(self.references[name] for name in going_on)
        groups = [
            candidate
            for reference in references
            for candidate in self._split_groups(
                reference, [name for name in going_on if self.references[name] == reference]
            )
        ]
        names = tuple(dict.fromkeys(name for group, _ in groups for name in group))
        self.progress(RoundStarted(number, names, self._estimate_left_s(spent_s)))
        share_s = math.inf if self._is_fixed else self._budget_s / _LEAST_ROUNDS
        for group, together in groups:
            self.repeat += 1
            before = self.clock()
            if self._measure_group(group, together=together, turns_s=share_s / len(groups)):
                for name, base, logs in self._list_pairs(name for name in names if name in group):
                    self._learn_pair(name, base, logs, self.repeat, together=together)
            self.cost_s |= dict.fromkeys(group, self.clock() - before)
        self.round_s.append(self.clock() - begun)
        widths = {name: compute_half_width(self.race_logs[name]) for name in going_on}
        self.progress(RoundFinished(number, self.round_s[-1], widths))

    def _split_groups(self, reference: str, members: Sequence[str]) -> list[tuple[list[str], bool]]:
        """Split variants into groups measured together, each with its reference, where one is needed, and what its
        members extend, and say whether a group is resident together."""
        needed = [reference] if any(map(self._needs_reference, members)) else []
        anchors = list(dict.fromkeys((*needed, *(self.bases[name] for name in members))))
        others = [name for name in members if name not in anchors]
        if not self.request.by_turns:
            return [([*anchors, *others], False)]
        kinds = split_by_speed(others, reference, self.step_s)
        free = _MEMORY_SHARE * self.available()
        return [group for kind in kinds for group in split_by_memory(anchors, kind, self.resident_bytes, free)]

    def _measure_group(self, group: list[str], *, together: bool, turns_s: float) -> bool:
        """Make a run of each; False where nothing was kept. Who is first changes, and every other round is reversed."""
        shift = self.repeat // 2 % len(group)
        order = group[shift:] + group[:shift]
        specs = [self.specs[name] for name in (order if self.repeat % 2 == 0 else reversed(order))]
        if together:
            index = self._done
            turns = self.request.turns
            return self.making.run_by_turns(
                specs, self.repeat, self.progress, round_index=index, turns=turns, turns_s=turns_s
            )
        for index, spec in enumerate(specs):
            self.making.run(ScheduledRun(spec, self.repeat), self.progress, index=index, total=len(specs))
        return True

    def _learn_earlier(self) -> None:
        """Add runs of earlier rounds."""
        since = self._begun if self.request.world_sizes else 0
        for name, reference, logs in self._list_pairs(self.references):
            for repeat in list_shared_repeats(self.making, name, reference, alone=not self.request.by_turns):
                if repeat >= since:
                    together = reference in self.making.turns(name, repeat)
                    self._learn_pair(name, reference, logs, repeat, together=together)

    def _list_pairs(self, names: Iterable[str]) -> Iterator[tuple[str, str, list[float]]]:
        """The comparisons of variants: each with its reference, and with what it extends, and their log ratios."""
        for name in (name for name in names if name in self.references):
            yield name, self.references[name], self.logs[name]
            if self.bases[name] != self.references[name]:
                yield name, self.bases[name], self.race_logs[name]

    def _learn_pair(self, name: str, reference: str, logs: list[float], repeat: int, *, together: bool) -> None:
        """Add a repeat's log ratio (or the log of a variant's own step time) to `logs`, if both ended well."""
        if {name, reference} & self.making.ended:
            return
        log = compute_pair_log(self.making, self.specs[name], self.specs[reference], repeat, together=together)
        if log is not None:
            logs.append(log)
