"""What a wrapper for data parallelism (DDP, FSDP) reduces and gathers."""

from perfkit.core.spec import Struct

DDP, FSDP1, FSDP2 = "DDP", "FSDP", "FSDP2"


class GradientReductions(Struct):
    """The reductions of gradients by `wrapper` (`DDP`, `FSDP`, `FSDP2`): medians over optimizer steps.

    `passes` are the backward passes of an optimizer step, of which `reducing` reduce gradients. `pass_bytes` are the
    messages of such a pass, `update_bytes` those of an optimizer step.
    """

    wrapper: str
    passes: float
    reducing: float
    pass_bytes: float
    update_bytes: float


class ParameterGathers(Struct):
    """The all-gathers of FSDP2 by group of parameters: their number, and the bytes of the largest and of all groups.

    `largest` is the path of the module of the largest group, empty for the root.
    """

    groups: int
    largest: str
    largest_bytes: float
    all_bytes: float
