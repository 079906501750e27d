"""Actions of a pipeline's ranks over the time of one step."""

from perfkit.core.record import Quantity
from perfkit.core.spec import Struct

FORWARD, BACKWARD, OF_INPUTS, OF_WEIGHTS = "F", "B", "I", "W"


class StageAction(Struct):
    """A stage's computation for a microbatch: F a forward pass, B a backward pass, I and W the gradients of inputs and
    of weights. Times are on the rank's own clock.
    """

    stage: int
    kind: str
    microbatch: int
    start_ns: int
    end_ns: int


class StageActions(Struct):
    """The actions of a rank's stages in a step, in order of time. With `waits`, the time of an action includes waiting
    for its inputs, as torch's own ranges do."""

    step: int
    actions: tuple[StageAction, ...]
    includes_waits: bool = False


class PipelineRank(Struct):
    """A rank of a pipeline: its actions by the first one's clock, and the share of the step shown in which it had none.

    `bubble` is that share as measured over the timed steps, where nothing was recorded.
    """

    rank: int
    actions: tuple[StageAction, ...]
    idle_share: float
    bubble: Quantity


class Pipeline(Struct):
    """One step of a pipeline, from its first action on any rank at `start_ns` until its last at `end_ns`.

    `expected_bubble` is the share of its time in which a rank computes nothing by theory, None where
    that is not known; `source` is that of the formula, with what it holds for.
    """

    step: int
    start_ns: int
    end_ns: int
    ranks: tuple[PipelineRank, ...]
    includes_waits: bool = False
    expected_bubble: float | None = None
    source: str = ""
