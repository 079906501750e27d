"""What a wrapper for data parallelism (DDP, FSDP) reduces and gathers."""

from perfkit.core.spec import Struct

DDP, FSDP1, FSDP2 = "DDP", "FSDP", "FSDP2"


class GradientReductions(Struct):
    """The reductions of gradients by `wrapper` (`DDP`, `FSDP`, `FSDP2`): medians over optimizer steps.

    `passes` are the backward passes of an optimizer step, of which `reducing` reduce gradients. `pass_bytes` are the
    messages of such a pass, `update_bytes` those of an optimizer step. `calls` are the reductions of such a pass, and
    `first_share` is when the first of them is requested: 0 at the begin of the pass, 1 with the last, whose bytes are
    `last_bytes`.
    """

    wrapper: str
    passes: float
    reducing: float
    pass_bytes: float
    update_bytes: float
    calls: float = 0.0
    first_share: float = 0.0
    last_bytes: float = 0.0


class ParameterGathers(Struct):
    """The all-gathers of FSDP2 by group of parameters: their number, and the bytes of the largest and of all groups.

    `largest` is the path of the module of the largest group, empty for the root.
    """

    groups: int
    largest: str
    largest_bytes: float
    all_bytes: float
