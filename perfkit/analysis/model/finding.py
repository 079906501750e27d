"""A finding: observation, cost, and advice."""

from collections.abc import Mapping
from types import MappingProxyType

# Not at the top: results of traces import the definitions above.
from perfkit.analysis.model.step import AT_MOST
from perfkit.spec import Struct

NO_FIGURES: Mapping[str, float] = MappingProxyType({})


class Finding(Struct):
    """A finding with its advice.

    `id` is what kind of finding it is: stable, `subject.what` (`fusion.elementwise`), one of those that the rules
    declare; several findings of a report may be of one kind. `severity` is `gain`, `warning` or `note`. Gains are in
    seconds per step (of a trace without steps: in total, and `per_step` is False) or bytes, where they are known.
    `simulated_s` is what a replay of the trace with the change takes less; None where `not_simulated_reason` says why.
    `gain_s` is the sum of what the work itself takes less, the most that can be saved of it (`gain_bound`; at least so
    much where kernels were lost). `evidence` is short, and `figures` are its numbers by name with their unit (`time_s`,
    `share`), as measured or traced; `details` say what the gain rests on and where else the same was found. `ops` are
    the names of those whose time it is about, the longest first; `idle_causes` are causes of idle time
    (`perfkit.analysis.model.idle`) that it is about.
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
    not_simulated_reason: str = ""
    figures: dict[str, float] = {}

    @property
    def expected_s(self) -> float | None:
        """The gain to expect: simulated where it was, else the sum."""
        return self.gain_s if self.simulated_s is None else self.simulated_s
