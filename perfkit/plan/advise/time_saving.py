"""Simulates what techniques would save of a recorded step, all at once: gains do not add up."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from perfkit.plan.advise.answers import AddressedWork, NoEffect, UnknownEffect
from perfkit.plan.advise.layers import estimate_larger_batch
from perfkit.plan.advise.model import TimeSaving
from perfkit.plan.advise.targets import find_answer
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.techniques.batch import Batch
from perfkit.techniques.technique import Technique


class TimeEstimate(NamedTuple):
    """What a step would take less; None where `not_known` says why."""

    saving: TimeSaving | None
    why: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()


def estimate_time_saved(step: TracedStep, techniques: Sequence[Technique], ratio: float = 1.0) -> TimeEstimate:
    """What a step saves with all of some techniques, simulated in the recorded one.

    Where these train on `ratio` times as many samples in a step, it is what the recorded step's share of them saves.
    """
    answers = [
        (each, estimate_larger_batch(step.view, ratio) if isinstance(each, Batch) else find_answer(step.view, each))
        for each in techniques
    ]
    unknown = tuple(
        f"time: effect of {technique.name} unknown ({said.reason})"
        for technique, said in answers
        if isinstance(said, UnknownEffect)
    )
    if unknown:
        return TimeEstimate(None, not_known=unknown)
    found = [said for _, said in answers if isinstance(said, AddressedWork)]
    nothing = tuple(f"{technique.name}: {said.reason}" for technique, said in answers if isinstance(said, NoEffect))
    saving = _simulate_saving(step, found)
    if saving is None:
        return TimeEstimate(None, not_known=("time: the trace lacks what would change",))
    why = tuple(dict.fromkeys(said.why for said in found)) + nothing
    return TimeEstimate(saving, why, tuple(dict.fromkeys(said.assumes for said in found)))


def _simulate_saving(step: TracedStep, found: Iterable[AddressedWork]) -> TimeSaving | None:
    found = tuple(found)
    most = step.gain_s(said.most for said in found)
    least = step.gain_s(said.least for said in found)
    again = step.gain_s(said.again for said in found)
    if most is None or least is None or again is None:
        return None
    cheap, dear = (sum(said.costs_s[end] for said in found) * step.view.pace for end in (0, 1))
    low, high = least - again - dear, most - again - cheap
    known = all(said.least or not said.most for said in found)
    return TimeSaving(
        value=(low + high) / 2, low=low, high=high, bound="interval" if known else "at most", basis="simulated"
    )
