"""A finding: what was seen, what it costs, what to do."""

# Not at the top: the results of traces are made of what stands above.
from perfkit.analysis.model.step import AT_MOST
from perfkit.spec import Struct


class Finding(Struct):
    """What to do next.

    `severity` is `gain`, `warning` or `note`; the gain is in seconds per step (of a trace without steps: in total, and
    `per_step` is False) or bytes, where it is known, and is the most that can be saved (`gain_bound`; at least so much
    where kernels were lost). `evidence` is short; `details` say what the gain rests on and where else the same was
    found.
    """

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
