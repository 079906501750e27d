"""What techniques declare of each other: those that cannot be combined with them, and those that they need.

A pattern is a technique's name with parameters that must have these values (`offload:what=parameters`). Declared pairs
crash, fail, average gradients twice, or cannot be verified; `docs/techniques.md` says how this was tested
(`benchmarks/compatibility.py`).
"""

from collections.abc import Iterable
from typing import NamedTuple


class Conflict(NamedTuple):
    """Another technique, by a pattern, that excludes the one that declares this.

    `when` are parameters that the declaring technique must have for that (`engine=deepspeed`), "" for any. One of the
    two declares it; the error names that one first.
    """

    other: str
    reason: str
    when: str = ""


class Requirement(NamedTuple):
    """A technique without which the one that declares this does not act; `when` as of a conflict."""

    technique: str
    reason: str
    when: str = ""


def make_conflicts(others: Iterable[str], reason: str, when: str = "") -> tuple[Conflict, ...]:
    """Make conflicts with several techniques for one reason."""
    return tuple(Conflict(other, reason, when) for other in others)


# FSDP2 on one dimension of ranks, and on two.
FULLY_SHARDED = ("zero2", "zero3", "hsdp")
SHARDED = ("zero1", *FULLY_SHARDED)
RELAXED = ("local_sgd", "ssp")

# Reasons that several techniques give.
NO_FP32_PRODUCTS = "with 16-bit matmuls, no fp32 matmuls are left for TF32"
OTHER_STAGE = "both are stages of one method; choose one"
REDUCED_LAST = "gradients are averaged over ranks after backward, but zero2, zero3 and hsdp do so before"
SAME_LAYERS = "both replace the same layers"
UPDATED_TOGETHER = "it counts or scales the updates of all parameters together, and backward updates each separately"
WITHOUT_WAITING = "both replace the gradient exchange of every step; choose one"
