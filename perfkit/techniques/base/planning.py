"""What is known of a technique before a plan applies it to a step."""

from typing import NamedTuple


class UnknownEffect(NamedTuple):
    """Reason for a technique's unknown effect on the step time."""

    reason: str


class NoEffect(NamedTuple):
    """Reason that a technique saves no time in this step."""

    reason: str
