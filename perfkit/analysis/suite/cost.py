"""The cost of training, from the price of an hour and the throughput; of tokens that train, also their energy."""

from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.loop import LoopAnalysis, UsefulTokens
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.estimate import estimate_over_processes
from perfkit.core.record.quantity import Measurement, Quantity
from perfkit.store.price import Price, format_cost_unit

_MILLION = 1e6


def add_costs(analysis: Analysis, price: Price) -> Analysis:
    """The analysis with the cost of each variant, with an interval where its throughput has one."""
    return replace(
        analysis,
        price=price,
        variants=tuple(
            replace(variant, cost=_compute_cost(variant, price), loop=_price_loop(variant.loop, price))
            for variant in analysis.variants
        ),
    )


def _price_loop(loop: LoopAnalysis | None, price: Price) -> LoopAnalysis | None:
    """An attached loop with the cost of its useful tokens, where they are known."""
    if loop is None or loop.useful is None:
        return loop
    return replace(loop, useful=add_token_cost(loop.useful, price))


def _compute_cost(variant: Variant, price: Price) -> MedianEstimate | MissingEstimate:
    rate = variant.throughput
    if isinstance(rate, MissingEstimate):
        return rate
    unit = variant.throughput_unit.removesuffix("/s")
    costs = [price.cost(per_second, unit) for per_second in rate.per_process]
    return estimate_over_processes(
        costs, f"{price.currency} per {format_cost_unit(unit)}".strip(), f"{price.label} / throughput", rate.how
    )


def compute_useful_tokens(
    loop: LoopAnalysis, step_time: MedianEstimate | MissingEstimate, energy: Quantity
) -> UsefulTokens | None:
    """The useful tokens of a step of all ranks; None where batches do not show them.

    Args:
        loop: its tokens and wall time.
        step_time: of all ranks' median step.
        energy: of a step of all ranks.
    """
    useful = None if loop.tokens is None else loop.tokens.useful
    if not useful:
        return None
    wall, steps = loop.wall_time, loop.optimizer_steps
    run_per_second = None
    if wall is not None and wall.program_s > 0 and wall.updates and steps is not None and steps.median:
        run_per_second = useful * wall.updates / steps.median / wall.program_s
    return UsefulTokens(
        per_step=useful,
        per_second=useful / step_time.value if isinstance(step_time, MedianEstimate) else None,
        run_per_second=run_per_second,
        energy_per_million=(
            replace(
                energy, value=energy.value / useful * _MILLION, source=f"{energy.source}; / {useful:,.0f} useful tokens"
            )
            if isinstance(energy, Measurement)
            else energy
        ),
    )


def add_token_cost(tokens: UsefulTokens, price: Price) -> UsefulTokens:
    """With the cost of a million useful tokens, in timed steps and in the whole run."""
    return replace(
        tokens,
        cost_per_million=None if tokens.per_second is None else price.cost(tokens.per_second, "tokens"),
        run_cost_per_million=None if tokens.run_per_second is None else price.cost(tokens.run_per_second, "tokens"),
    )
