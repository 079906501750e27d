"""Finds which ranges of a program are its steps."""

import re

import numpy as np

from perfkit.trace.annotations import COLLECTIVE_RANGES, match_phase
from perfkit.trace.event_names import map_names
from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Category, Ints, Trace

# Names that programs give to the range around a step, without their numbers, in lower case.
_STEP_NAMES = re.compile(
    r"\W*((train(ing)?|global|val(idation)?|eval(uation)?|inference)?[\s_]*(step|iter(ation)?|batch)"
    r"|.*run_training_batch|.*_training_step_and_backward)\W*"
)
# Range names of language model servers around a step: batch sizes, no step number.
_SERVING = (
    (re.compile(r"execute_(\d+_)?(context|new)_\d+\S*"), "execute_context"),  # vLLM
    (re.compile(r"step\[\w+ [^\]]*\]"), "step[]"),  # SGLang
)
# Numbered parts of a model or of a step cover it as steps cover a trace.
_PARTS = re.compile(r"layer|block|stage|module|expert|head|encoder|decoder|bucket|micro|chunk|split")
# How much of the time from its first to its last range has to be within the ranges of a name that is no name of steps.
_LEAST_COVER = 0.8


_NUMBER = re.compile(r"[\s_#:\[(]*\d+[\])]?\W*$")


def find_program_steps(trace: Trace, ops: Ints) -> tuple[Ints, str] | None:
    """The ranges around the steps of a program, and their name; None without any.

    Ranges of one name on one thread that follow each other, from the first to the last around most of the work.

    What is named a step is one; of other ranges the rarest, for those that are more frequent may be parts of a step.
    `ops` are those within no other.
    """
    work = trace.start_ns[ops if len(ops) else trace.select_events(*DEVICE_CATEGORIES)]
    events, stems = map_names(trace, trace.select_events(Category.RANGE), _extract_stem)
    if not len(events) or not len(work):
        return None
    numbers = {stem: number for number, stem in enumerate(sorted(set(stems.values())))}
    number = np.zeros(len(trace.names), np.int64)
    for index, stem in stems.items():
        number[index] = numbers[stem]
    group = number[trace.name[events]] * len(trace.threads) + trace.thread[events]
    events = events[np.argsort(group, kind="stable")]
    starts, ends = trace.start_ns[events], trace.end_ns[events]
    first = np.flatnonzero(np.diff(np.sort(group), prepend=-1))
    last = np.append(first[1:], len(events))
    begin, end = starts[first], ends[last - 1]
    around = np.searchsorted(work, end) - np.searchsorted(work, begin)
    covered = np.add.reduceat(ends - starts, first)
    least = np.asarray([_get_least_cover(stems[name]) for name in trace.name[events[first]].tolist()])
    says_so = least < _LEAST_COVER
    fits = (around >= _LEAST_COVER * len(work)) & (covered >= least * (end - begin))
    candidates = []
    for series in np.flatnonzero(fits).tolist():
        stem = stems[int(trace.name[events[first[series]]])]
        count = int(last[series] - first[series])
        if says_so[series] or count > 1:
            candidates.append((not says_so[series], count, series, stem))
    for _, _, series, stem in sorted(candidates):
        chosen = slice(int(first[series]), int(last[series]))
        if (starts[chosen][1:] >= ends[chosen][:-1]).all():
            return events[chosen], stem
    return None


def _extract_stem(name: str) -> str | None:
    """A range's name without its number; None for collectives, phases and parts of a model."""
    served = _match_serving(name)
    if served is not None:
        return served
    stem = _NUMBER.sub("", name)
    if name.startswith(COLLECTIVE_RANGES) or _PARTS.search(stem.lower()) or match_phase(name) is not None:
        return None
    return stem


def _get_least_cover(stem: str) -> float:
    """The share of time, from the first to the last range of a stem, that ranges must cover to be steps.

    Between two batches a server does other things or waits; a program may load its data between what it calls steps.
    """
    if any(stem == serving for _, serving in _SERVING):
        return 0.0
    return 0.3 if _STEP_NAMES.fullmatch(stem.lower()) else _LEAST_COVER


def _match_serving(name: str) -> str | None:
    return next((stem for pattern, stem in _SERVING if pattern.fullmatch(name)), None)


def parse_step_number(name: str) -> int:
    """The number of a step by the name of its range, NONE where that has none."""
    if _match_serving(name) is not None:
        return NONE
    numbers = re.findall(r"\d+", name)
    return int(numbers[-1]) if numbers and len(numbers[-1]) < 19 else NONE
