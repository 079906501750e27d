"""Differences between the environments of the ranks of one job."""

from collections.abc import Iterable, Mapping

from perfkit.analysis.compare.environments import ComparisonEffect, compare_environments
from perfkit.analysis.model.fleet import RankDifference
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.record.environment import Environment

# Members of traces that name versions of the software that ran: Kineto's `cuda_driver_version`, `hip_runtime_version`.
_VERSION = "_version"
_NOT_RECORDED = "not recorded"


def compare_rank_environments(environments: Mapping[str, Environment]) -> tuple[RankDifference, ...]:
    """What differs between ranks by label and may slow some of them down; not which processors or devices each has."""
    labels = list(environments)
    first = next(iter(environments.values()), None)
    values: dict[str, dict[str, str]] = {}
    for label, environment in environments.items():
        for differs in compare_environments(first or environment, environment):
            if differs.effect is not ComparisonEffect.NOTED:
                values.setdefault(differs.key, dict.fromkeys(labels, differs.before))[label] = differs.after
    return tuple(_group_ranks(key, of_ranks) for key, of_ranks in values.items())


def describe_traced_rank(trace: RankTrace) -> dict[str, str]:
    """The environment as a trace states it: its device, and the versions that it names."""
    versions = {name: value for name, value in trace.properties.items() if name.lower().endswith(_VERSION)}
    return {"device_name": trace.device_name, **versions} if trace.device_name else versions


def compare_traced_ranks(stated: Mapping[str, Mapping[str, str]]) -> tuple[RankDifference, ...]:
    """The same from what the traces of ranks state; see `describe_traced_rank`."""
    keys = dict.fromkeys(key for values in stated.values() for key in values)
    tables = {key: {label: values.get(key, _NOT_RECORDED) for label, values in stated.items()} for key in keys}
    return tuple(_group_ranks(key, values) for key, values in tables.items() if _differ(values.values()))


def _differ(values: Iterable[str]) -> bool:
    """True if ranks state different values; where one states none, nothing is known."""
    return len(set(values) - {_NOT_RECORDED}) > 1


def _group_ranks(key: str, values: Mapping[str, str]) -> RankDifference:
    """The ranks of each value, the value of most first."""
    ranks: dict[str, list[str]] = {}
    for label, value in values.items():
        ranks.setdefault(value, []).append(label)
    ordered = sorted(ranks.items(), key=lambda item: -len(item[1]))
    return RankDifference(
        key=key, values=tuple(value for value, _ in ordered), ranks=tuple(tuple(labels) for _, labels in ordered)
    )
