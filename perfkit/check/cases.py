"""Plans the runs for a configuration's cases."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from perfkit.check.config import EXAMPLE, CheckCase, CheckConfig, Thresholds
from perfkit.check.judge.check_thresholds import get_default_thresholds
from perfkit.core.errors import UsageError
from perfkit.core.spec import (
    ENERGY_S,
    RunSpec,
    Schedule,
    WorkloadSpec,
    format_variant_label,
    parse_variants,
    parse_workload,
)
from perfkit.store.request import BenchRequest

# Counts need few steps; times come from pairs. All compared losses are among them.
COUNTED = Schedule(warmup=5, timed=5)

_RANKS = re.compile(r"(.*?)(?:@(\d+))?", re.DOTALL)  # of a variant: `zero2@2`


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The device to check on: `cpu` or `cuda`, name, number of devices, and CPU cores."""

    device: str
    name: str
    count: int
    cores: int


@dataclass(frozen=True, kw_only=True)
class PlannedCase:
    """A case with its runs. `specs` are the variants to judge; the request also has their baselines."""

    case: CheckCase
    request: BenchRequest
    specs: tuple[RunSpec, ...]
    folder: str

    @property
    def workload(self) -> str:
        return self.request.workload.label

    @property
    def thresholds(self) -> Thresholds:
        """Thresholds by quantity, None if only reported."""
        return self.case.resolve_thresholds()


def plan_cases(config: CheckConfig, machine: Machine, schedule: Schedule) -> tuple[PlannedCase, ...]:
    """Plan all cases. Raises `UsageError` for invalid cases, or with an example if there are none."""
    if not config.cases:
        raise UsageError(
            f"nothing to check: name a workload with --workload, or add cases to pyproject.toml, such as\n\n{EXAMPLE}"
        )
    return tuple(
        _plan_case(number, case, config, machine, schedule) for number, case in enumerate(config.cases, start=1)
    )


def find_case(config: CheckConfig, workload: str, variant: str) -> CheckCase | None:
    """The last case that has this workload's variant, on any number of ranks unless it says so; None if none has."""
    techniques, ranks = _RANKS.fullmatch(variant).groups()  # type: ignore[union-attr]
    for case in reversed(config.cases):
        labels = map(format_variant_label, parse_variants(case.technique))
        is_of_size = case.world_size in (None, int(ranks or 1))
        if is_of_size and techniques in labels and _parse_case_workload(case, ()).label == workload:
            return case
    return None


def find_thresholds(config: CheckConfig, workload: str, variant: str) -> Thresholds:
    """The thresholds of a stored run's variant: those of the last case that has it, else those for all cases.

    It needs no torch: a case without `world_size` has its variants on any number of ranks.
    """
    case = find_case(config, workload, variant)
    return {**get_default_thresholds(), **config.thresholds} if case is None else case.resolve_thresholds()


def _plan_case(number: int, case: CheckCase, config: CheckConfig, machine: Machine, schedule: Schedule) -> PlannedCase:
    # Not sooner: these import torch, which comparing stored runs does without.
    from perfkit.measure.auto_params import refuse_open_params
    from perfkit.measure.bench import compute_needed_ranks
    from perfkit.measure.schedule import build_schedule
    from perfkit.workloads.workload_table import WORKLOADS

    named = tuple(parse_variants(case.technique))
    for techniques in named:
        refuse_open_params(techniques)
    if case.resolve_thresholds()["energy"] is not None:
        schedule = replace(schedule, energy_s=ENERGY_S)
    request = BenchRequest(
        workload=_parse_case_workload(case, WORKLOADS.list_names()),
        variants=named,
        device=machine.device,
        device_count=machine.count,
        cores=machine.cores,
        dtype=case.dtype,
        seed=case.seed,
        accumulation=case.accumulate,
        schedule=schedule,
        rounds=0,
        world_size=case.world_size,
        threads=config.threads,
    )
    wanted = {format_variant_label(techniques) for techniques in named}
    specs = tuple(
        item.spec
        for item in build_schedule(request, compute_needed_ranks).runs
        if format_variant_label(item.spec.techniques) in wanted
    )
    folder = f"{number}-{re.sub(r'[^A-Za-z0-9._-]+', '-', request.workload.label).strip('-')[:60]}"
    return PlannedCase(case=case, request=request, specs=specs, folder=folder)


def _parse_case_workload(case: CheckCase, known: Iterable[str]) -> WorkloadSpec:
    spec = parse_workload(case.workload, known)
    sizes = {"batch_size": case.batch_size, "seq_len": case.seq_len}
    given = {key: value for key, value in sizes.items() if value is not None}
    return WorkloadSpec(name=spec.name, params={**spec.params, **given})
