"""Builds the stored record of a plan: workload, device, time."""

from collections.abc import Iterable
from datetime import UTC, datetime

import perfkit
from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.plan.target.target import Target
from perfkit.plan.timing.device_efficiencies import get_target_ceilings
from perfkit.store.layout import RecomputationSearch
from perfkit.store.request import BenchRequest
from perfkit.workloads.source_digests import compute_source_digests


def build_plan_record(
    request: BenchRequest,
    target: Target,
    variants: Iterable[PlannedVariant],
    command: str,
    recomputations: Iterable[RecomputationSearch] = (),
) -> Plan:
    """The record of a request's planned variants and searches, dated at the end of planning."""
    planned = tuple(variants)
    return Plan(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        workload=request.workload,
        dtype=request.dtype,
        accumulation=request.accumulation,
        scaling=request.scaling,
        variants=planned,
        recomputations=tuple(recomputations),
        sources=compute_source_digests(request.workload.name),
        device=target.kind,
        device_name="" if target.entry is None else target.device,
        limit_bytes=target.limit_bytes,
        ceilings=get_target_ceilings(target),
    )
