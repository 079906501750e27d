"""What a technique is: typed parameters, a stage, what it changes, and what must then be true."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import ClassVar

import torch

from perfkit.record import Claim, ParityRule
from perfkit.spec import Struct
from perfkit.techniques.state import TrainState


class Stage(IntEnum):
    """The order in which techniques are applied."""

    MODEL = 10  # changes the modules
    CHECKPOINT = 30
    COMPILE = 40
    SHARD = 50
    OPTIMIZER = 60
    STEP = 70  # what surrounds a step: autocast and scaler, hooks


LOSSLESS = ParityRule(relative=1e-5, basis="lossless: the same arithmetic in fp32, up to the order of sums")


class Technique(Struct):
    """Base of all techniques. Fields are the parameters; class variables describe the technique.

    A subclass that cannot act raises `UnavailableError` with the reason from `apply`; `unavailable` answers
    the same for a listing, without a model.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    stage: ClassVar[Stage]
    min_world_size: ClassVar[int] = 1
    # Words of torch's message where a step does what the technique cannot go with, and why it cannot.
    refusals: ClassVar[Mapping[str, str]] = {}

    def unavailable(self, device: torch.device) -> str | None:
        """Why the technique cannot act on this kind of device, or None where it can."""
        return None

    def needs_16_bits(self, device: str) -> bool:
        """Whether it acts in bf16 and fp16 only on this kind of device."""
        return False

    def computes_in(self, dtype: str) -> str:
        """The dtype of the matrix products' operands, given what it is without the technique."""
        return dtype

    def apply(self, state: TrainState) -> TrainState:
        """Change the training state; raises `UnavailableError` where the technique cannot act."""
        raise NotImplementedError

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        """What must be true of a run in which this technique acted (called after the optimizer exists)."""
        raise NotImplementedError

    def parity(self) -> ParityRule:
        """How far from the baseline the losses may be."""
        return LOSSLESS


def refused(error: BaseException, techniques: Iterable[Technique]) -> str:
    """Which technique cannot act on what the step does, and why; empty where `error` is another."""
    said = str(error)
    for technique in techniques:
        for words, reason in technique.refusals.items():
            if words in said:
                return f"{technique.name} cannot act on this step: {reason}"
    return ""


def misfit(name: str, found: object) -> str:
    """Why what a package registers as `name` is no technique of this name; empty if it is one."""
    if not isinstance(found, type) or not issubclass(found, Technique):
        return "it is no subclass of perfkit.Technique"
    lacking = [attribute for attribute in ("name", "summary", "stage") if not hasattr(found, attribute)]
    if lacking:
        return f"it lacks {', '.join(lacking)}"
    return "" if found.name == name else f"it calls itself {found.name!r}"
