"""Simulates the time that techniques save in a recorded step, all together: gains do not add up."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from perfkit.plan.advise.advice import TimeSaving
from perfkit.plan.advise.answers import AddressedWork
from perfkit.plan.advise.layers import estimate_larger_batch
from perfkit.plan.advise.targets import find_answer
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.techniques.base.planning import NoEffect, UnknownEffect
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.data.batch import Batch


class TimeEstimate(NamedTuple):
    """The time saved per step; None with the reason in `not_known`."""

    saving: TimeSaving | None
    why: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()


def estimate_time_saved(step: TracedStep, techniques: Sequence[Technique], ratio: float = 1.0) -> TimeEstimate:
    """Time saved per step by several techniques together, simulated in the recorded step.

    If they train `ratio` times as many samples per step, the saving is per recorded step's samples.
    """
    answers = [
        (each, estimate_larger_batch(step.view, ratio) if isinstance(each, Batch) else find_answer(step.view, each))
        for each in techniques
    ]
    unknown = tuple(
        f"time: effect of {technique.name} unknown ({answer.reason})"
        for technique, answer in answers
        if isinstance(answer, UnknownEffect)
    )
    if unknown:
        return TimeEstimate(None, not_known=unknown)
    addressed = [answer for _, answer in answers if isinstance(answer, AddressedWork)]
    nothing = tuple(
        f"{technique.name}: {answer.reason}" for technique, answer in answers if isinstance(answer, NoEffect)
    )
    saving = _simulate_saving(step, addressed)
    if saving is None:
        return TimeEstimate(None, not_known=("time: the trace lacks the affected work",))
    reasons = tuple(dict.fromkeys(answer.why for answer in addressed)) + nothing
    return TimeEstimate(saving, reasons, tuple(dict.fromkeys(answer.assumes for answer in addressed)))


def _simulate_saving(step: TracedStep, addressed: Iterable[AddressedWork]) -> TimeSaving | None:
    addressed = tuple(addressed)
    most = step.gain_s(answer.most for answer in addressed)
    least = step.gain_s(answer.least for answer in addressed)
    again = step.gain_s(answer.again for answer in addressed)
    if most is None or least is None or again is None:
        return None
    cheap, dear = (sum(answer.costs_s[end] for answer in addressed) * step.view.pace for end in (0, 1))
    low, high = least - again - dear, most - again - cheap
    known = all(answer.least or not answer.most for answer in addressed)
    return TimeSaving(
        value=(low + high) / 2, low=low, high=high, bound="interval" if known else "at most", basis="simulated"
    )
