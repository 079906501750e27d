"""The schedules of pipeline parallelism: which of torch's they are, what they ask for, and their bubble by theory."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import _PipelineSchedule
    from torch.distributed.pipelining.stage import PipelineStage

BUBBLE = "expected_bubble_share"  # a fact

# Ranks, stages per rank, and microbatches -> the idle share of a rank in the pipeline's time, for equal stages and free
# messages. None without a formula.
Bubble = Callable[[int, int, int], float | None]


class ScheduleKind(NamedTuple):
    """A schedule.

    Attributes:
        torch_name: its class in `torch.distributed.pipelining`.
        stages: stages per rank by default.
        most: maximum number of stages per rank; None without a limit.
        bubble: theoretical bubble.
        source: source of its formula.
        v_shaped: the second half of the stages goes back over the ranks, so that the first rank has the first and the
            last.
        splits_backward: gradients of inputs and of weights are computed separately.
        rounds: microbatches run in rounds of the number of ranks.
    """

    torch_name: str
    stages: int
    most: int | None
    bubble: Bubble
    source: str
    v_shaped: bool = False
    splits_backward: bool = False
    rounds: bool = False


def _compute_fill_drain_bubble(ranks: int, stages: int, microbatches: int) -> float:
    return (ranks - 1) / (stages * microbatches + ranks - 1)


def _compute_weight_filled_bubble(ranks: int, stages: int, microbatches: int) -> float:
    """Forward, gradients of inputs and gradients of weights take as long: a bubble of one of the three a rank."""
    return (ranks - 1) / (3 * stages * microbatches + ranks - 1)


def _compute_zbv_bubble(ranks: int, _stages: int, microbatches: int) -> float | None:
    return 0.0 if microbatches >= 2 * ranks else None


_ZERO_BUBBLE = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, arXiv 2401.10241"

SCHEDULES = {
    "gpipe": ScheduleKind(
        "ScheduleGPipe", 1, 1, _compute_fill_drain_bubble, "Huang et al., GPipe, arXiv 1811.06965, section 2.3"
    ),
    "1f1b": ScheduleKind(
        "Schedule1F1B",
        1,
        1,
        _compute_fill_drain_bubble,
        "Narayanan et al., Megatron-LM, arXiv 2104.04473, section 2.2.1",
    ),
    "interleaved": ScheduleKind(
        "ScheduleInterleaved1F1B",
        2,
        None,
        _compute_fill_drain_bubble,
        "Narayanan et al., Megatron-LM, arXiv 2104.04473, section 2.2.2",
        rounds=True,
    ),
    "bfs": ScheduleKind(
        "ScheduleLoopedBFS",
        2,
        None,
        _compute_fill_drain_bubble,
        "Lamy-Poirier, Breadth-First Pipeline Parallelism, arXiv 2211.05953, section 3",
    ),
    "zb": ScheduleKind(
        "ScheduleInterleavedZeroBubble",
        1,
        None,
        _compute_weight_filled_bubble,
        f"{_ZERO_BUBBLE}, table 2, ZB-H1, if F, B and W take equally long",
        splits_backward=True,
        rounds=True,
    ),
    "zbv": ScheduleKind(
        "ScheduleZBVZeroBubble",
        2,
        2,
        _compute_zbv_bubble,
        f"{_ZERO_BUBBLE}, section 6, if F, B and W take equally long and there are at least twice as many "
        "microbatches as ranks",
        v_shaped=True,
        splits_backward=True,
    ),
}


def get_stage_rank(kind: ScheduleKind, stage: int, ranks: int) -> int:
    """The rank that a stage is on."""
    place = stage % ranks
    return ranks - 1 - place if kind.v_shaped and (stage // ranks) % 2 else place


def list_rank_stages(kind: ScheduleKind, rank: int, ranks: int, stages: int) -> tuple[int, ...]:
    """The stages of a rank with this number of stages."""
    return tuple(stage for stage in range(ranks * stages) if get_stage_rank(kind, stage, ranks) == rank)


def explain_schedule_refusal(name: str, ranks: int, microbatches: int) -> str:
    """Explain why a schedule does not run with this number of microbatches per step; empty if it does."""
    if name == "1f1b" and microbatches < ranks:
        return f"schedule=1f1b needs at least as many microbatches as stages; there are {microbatches} and {ranks}"
    rounds = max(1, microbatches // ranks)
    if SCHEDULES[name].rounds and microbatches % rounds:
        return f"schedule={name} runs microbatches in {rounds} rounds, and {microbatches} do not divide into them"
    return ""


def list_microbatch_counts(name: str, ranks: int, samples: int, accumulation: int = 1) -> list[int]:
    """List the numbers of microbatches into which a schedule can split a batch of this size, with this number of
    batches per step."""
    divisors = (parts for parts in range(1, samples + 1) if samples % parts == 0)
    return [parts for parts in divisors if not explain_schedule_refusal(name, ranks, parts * accumulation)]


def make_schedule(
    name: str, stages: "list[PipelineStage]", microbatches: int, loss: Callable[..., Any]
) -> "_PipelineSchedule":
    """Make torch's schedule over the stages of this rank. Gradients are not scaled: they are those of `loss`."""
    from torch.distributed import pipelining  # not sooner: plans of other techniques do without

    kind = SCHEDULES[name]
    make = getattr(pipelining, kind.torch_name)
    own: Any = stages[0] if issubclass(make, pipelining.schedules.PipelineScheduleSingle) else stages
    schedule: _PipelineSchedule = make(own, microbatches, loss_fn=loss, scale_grads=False)
    return schedule


def count_in_flight(name: str, schedule: Any, rank: int, ranks: int, microbatches: int) -> int:
    """The maximum number of microbatches, times stages, whose activations a rank holds at once.

    GPipe holds all, 1F1B as many as there are stages from its own on (Narayanan et al. 2021, section 2.2.1); others
    follow the order of torch's schedule.
    """
    if name == "gpipe":
        return microbatches
    if name == "1f1b":
        return min(microbatches, ranks - rank)
    return count_most_held(
        action.computation_type.value for action in schedule.pipeline_order[rank] if action is not None
    )


def count_most_held(actions: Iterable[str]) -> int:
    """The maximum number of forward passes (F) that await their backward pass, or its last part (B, W)."""
    counts: Counter[str] = Counter()
    most = 0
    for action in actions:
        counts[action] += 1
        most = max(most, counts["F"] - counts["B"] - counts["W"])
    return most
