"""A finding: observation, cost, and advice."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from perfkit.analysis.model.replay import TouchedTime
from perfkit.analysis.model.step import AT_MOST
from perfkit.core.spec import Struct

NO_FIGURES: Mapping[str, float] = MappingProxyType({})


FigureBasis = Literal["measured", "simulated", "modeled", "bound"]


class GainRange(Struct):
    """The range of a gain: seconds or bytes, by `unit`; None where a side is not bounded.

    `basis` is `measured` (the 95 % interval of paired runs; memory is exact), `simulated` (from nothing to all time
    that the simulated change removes) or `bound` (of the work itself). On a CPU `low` is the time of ops that go for
    certain, and `high` has what is around ops that go: dispatch, hooks, and what others read again from memory. Both
    have the 95 % error of the mean traced step.
    """

    unit: Literal["s", "bytes"]
    low: float | None
    high: float | None
    basis: FigureBasis


class Finding(Struct):
    """A finding with its advice.

    `id` is the kind of finding, `subject.what` (`fusion.elementwise`), declared by the rules; several findings of a
    report may share it. `severity` is `gain`, `warning` or `note`. `gain_s` is the summed time saved in the work
    itself, an upper bound (`gain_bound`: a lower bound where kernels were lost); gains are per step, in total where
    `per_step` is False. `simulated_s` is the saving in a replay of the trace; None where `not_simulated_reason` says
    why. `touched` is all time that the simulated change removes: gaps and CPU time too, so that the saving may exceed
    `gain_s`. `evidence` is short, and `figures` are its numbers by name with unit (`time_s`, `share`), as measured or
    traced. `details` give the basis of the gain, and other traces with the same finding. `ops` are the names of the ops
    concerned, the longest first. `idle_causes` are the causes of idle time concerned (`perfkit.analysis.model.idle`).

    `variant` is the subject: a variant, a trace or a device; "" for the whole. `gains` are the ranges of `gain_s` and
    `gain_bytes`. `confidence` is the basis of the gain of time, else of the gain of memory, else of the figures.
    `techniques` are perfkit's that follow the advice, the first first; of an outcome those that were on. `verify` is a
    command that measures or simulates the fix; `undo` runs the variant without those of its techniques that the
    finding is about, "" where it is about none: the fix is not made yet.
    """

    id: str
    severity: str
    title: str
    variant: str
    evidence: str
    action: str
    gain_s: float | None = None
    gain_bytes: int | None = None
    details: tuple[str, ...] = ()
    per_step: bool = True
    gain_bound: str = AT_MOST
    ops: tuple[str, ...] = ()
    idle_causes: tuple[str, ...] = ()
    simulated_s: float | None = None
    touched: TouchedTime | None = None
    not_simulated_reason: str = ""
    figures: dict[str, float] = {}
    gains: tuple[GainRange, ...] = ()
    confidence: FigureBasis = "measured"
    techniques: tuple[str, ...] = ()
    verify: str = ""
    undo: str = ""

    @property
    def expected_s(self) -> float | None:
        """The gain to expect: simulated where it was, else the sum."""
        return self.gain_s if self.simulated_s is None else self.simulated_s
