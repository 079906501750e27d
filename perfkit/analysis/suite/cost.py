"""The cost of training, from the price of an hour and the throughput."""

from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.estimate import estimate_over_processes
from perfkit.store.price import Price, format_cost_unit


def add_costs(analysis: Analysis, price: Price) -> Analysis:
    """The analysis with the cost of each variant, with an interval where its throughput has one."""
    return replace(
        analysis,
        price=price,
        variants=tuple(replace(variant, cost=_compute_cost(variant, price)) for variant in analysis.variants),
    )


def _compute_cost(variant: Variant, price: Price) -> MedianEstimate | MissingEstimate:
    rate = variant.throughput
    if isinstance(rate, MissingEstimate):
        return rate
    unit = variant.throughput_unit.removesuffix("/s")
    costs = [price.cost(per_second, unit) for per_second in rate.per_process]
    return estimate_over_processes(
        costs, f"{price.currency} per {format_cost_unit(unit)}".strip(), f"{price.label} / throughput", rate.how
    )
