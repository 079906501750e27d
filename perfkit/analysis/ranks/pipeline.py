"""The ranks of a pipeline, and their bubbles."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.fleet import Pipeline, PipelineRank, StageAction, StageActions
from perfkit.core.record.quantity import NOT_MEASURED, Measurement, Quantity, QuantityOrigin, Unknown
from perfkit.devices.accelerator import is_cpu


def build_pipeline(ranks: Mapping[int, StageActions], ahead_ns: Mapping[int, int] = {}) -> Pipeline | None:
    """Build the pipeline of the ranks, by number; None unless several marked the same step.

    `ahead_ns` is how far the clock of each is ahead.
    """
    numbers = [actions.step for actions in ranks.values() if actions.actions]
    step = max(set(numbers), key=numbers.count, default=0)
    moved = {
        rank: [_shift_action(action, ahead_ns.get(rank, 0)) for action in actions.actions]
        for rank, actions in sorted(ranks.items())
        if actions.actions and actions.step == step
    }
    if len(moved) < 2:
        return None
    start = min(actions[0].start_ns for actions in moved.values())
    end = max(action.end_ns for actions in moved.values() for action in actions)
    return Pipeline(
        step=step,
        start_ns=start,
        end_ns=end,
        ranks=tuple(
            PipelineRank(
                rank=rank,
                actions=tuple(actions),
                idle_share=1 - _sum_busy_ns(actions) / (end - start),
                bubble=NOT_MEASURED,
            )
            for rank, actions in moved.items()
        ),
        includes_waits=any(actions.includes_waits for actions in ranks.values()),
    )


def add_measured_bubbles(
    pipeline: Pipeline, facts: Mapping[int, Mapping[str, float]], notes: Mapping[str, str], device: str
) -> Pipeline:
    """Add the recorded bubble of the timed steps, and the expected one with its source."""
    any_rank = next(iter(facts.values()))
    ranks = tuple(replace(rank, bubble=_measure_bubble(facts.get(rank.rank, {}), device)) for rank in pipeline.ranks)
    expected = any_rank.get("expected_bubble_share")
    return replace(pipeline, ranks=ranks, expected_bubble=expected, source=notes.get("expected_bubble_share", ""))


def _measure_bubble(facts: Mapping[str, float], device: str) -> Quantity:
    busy, whole = facts.get("stage_busy_s"), facts.get("pipeline_s")
    if not is_cpu(device):
        return Unknown(reason="on a GPU, CPU timers see launches, not execution")
    if busy is None or not whole:
        return Unknown(reason="not timed")
    return Measurement(
        value=1 - busy / whole,
        unit="1",
        how=QuantityOrigin.MEASURED,
        source="timed steps, from the first microbatch until all ranks finished the last",
    )


def _sum_busy_ns(actions: Sequence[StageAction]) -> int:
    """Sum the busy time: a rank computes one action at a time."""
    return sum(action.end_ns - action.start_ns for action in actions)


def _shift_action(action: StageAction, ahead_ns: int) -> StageAction:
    return replace(action, start_ns=action.start_ns - ahead_ns, end_ns=action.end_ns - ahead_ns)
