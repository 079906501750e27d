"""What a technique declares for plans (`perfkit.plan`), which read it before they apply the technique to a step."""

from enum import Flag, IntEnum, auto
from typing import NamedTuple


class UnknownEffect(NamedTuple):
    """Reason for a technique's unknown effect on the step time."""

    reason: str


class NoEffect(NamedTuple):
    """Reason that a technique saves no time in this step."""

    reason: str


UNKNOWN_EFFECT = UnknownEffect("its effect on a step")
ESTIMATED: None = None
OF_COLLECTIVES = UnknownEffect("time of its collectives, without a plan for several ranks")


class Counted(Flag):
    """The published formulas of memory (`perfkit.plan.variants.closed_forms`) whose sizes hold with a technique."""

    NOTHING = 0
    STATES = auto()  # parameters, gradients and optimizer state are kept, or sharded like ZeRO
    ACTIVATIONS = auto()  # layers keep for backward what they keep without it
    ALL = STATES | ACTIVATIONS


class MemoryPrice(IntEnum):
    """The price of a memory saving. Plans try a lower one first."""

    SHARDS = 0  # of ranks that are there already
    NOTHING = 1
    MICROBATCHES = 2
    RECOMPUTATION = 3
    ROUNDED_OPERANDS = 4
    ROUNDED_STATE = 5

    @property
    def is_lossless(self) -> bool:
        """True if losses stay, up to the order of sums."""
        return self < MemoryPrice.ROUNDED_OPERANDS


class MemorySaving(NamedTuple):
    """Variants of a technique that plans try where a step does not fit.

    Attributes:
        price: the price of all of them.
        tried: those of which one alone may suffice, in this order.
        searched: those of which a search chooses at most one, each of which takes no more memory than the one before.
            Techniques of one price form one such ladder; where the price is nothing, each is its own.
    """

    price: MemoryPrice
    tried: tuple[str, ...]
    searched: tuple[str, ...] = ()


class Planning(NamedTuple):
    """How a technique is planned, besides `Technique.plannable`.

    Attributes:
        time_effect: why its effect on the time of a recorded step is unknown or none; `ESTIMATED` where
            `perfkit.plan.advise.targets` has an estimate.
        counted: the formulas that hold with it.
        savings: the variants by which plans save memory, each at a price.
        zero_stage: its stage of ZeRO in these formulas.
    """

    time_effect: UnknownEffect | NoEffect | None = UNKNOWN_EFFECT
    counted: Counted = Counted.NOTHING
    savings: tuple[MemorySaving, ...] = ()
    zero_stage: int = 0
