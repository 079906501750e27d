"""Resolves `auto` parameters: first by plan, then, before a bench, by trial runs."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.core.spec import format_variant_label
from perfkit.devices.machine.device_choice import find_device
from perfkit.measure.auto_params import FoundParams
from perfkit.measure.bench import schedule_first_run
from perfkit.measure.largest_batch import find_largest_batch
from perfkit.measure.redundant_size import read_batch_size
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.largest_batch import predict_batch
from perfkit.plan.search.least_recomputation import Searched, find_least_recomputation, make_trial_runner
from perfkit.plan.target.target import Target, explain_unknown_gpu, find_local_target
from perfkit.plan.variants.plan import make_planner
from perfkit.store.layout import BatchSearch, RecomputationSearch
from perfkit.store.request import BenchRequest
from perfkit.techniques.activations.ckpt import Ckpt
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.compose import find_open_technique
from perfkit.techniques.data.batch import Batch

_Search = BatchSearch | RecomputationSearch
_Found = tuple[Techniques, _Search] | None  # None: as requested
_FindOne = Callable[[Techniques, Technique], _Found]


def find_open_params(request: BenchRequest, progress: Callable[[Event], None]) -> FoundParams:
    """Resolve a request's `auto` parameters on this machine; `progress` receives every trial."""

    def found(techniques: Techniques, technique: Technique) -> _Found:
        if isinstance(technique, Batch):
            return find_largest_batch(
                techniques,
                technique.most,
                scheduled=partial(schedule_first_run, request),
                first=read_batch_size(request.workload, request.device) or 1,
                predicted=predict_batch(request, techniques, technique.most),
                progress=progress,
            )
        if isinstance(technique, Ckpt) and not schedule_first_run(request, techniques).skip:
            return _find_least_recomputation(request, techniques, technique, progress)
        return None

    return _find_for_variants(request, found)


def find_by_plan(
    request: BenchRequest, target: Target, progress: Callable[[str], None] = lambda _: None
) -> FoundParams:
    """Resolve a request's `auto` parameters by plans for a device; `progress` receives every planned variant.

    Raises `UsageError` for a batch without a size.
    """
    plan = make_planner(request, target, progress)

    def found(techniques: Techniques, technique: Technique) -> _Found:
        if isinstance(technique, Batch):
            raise UsageError("batch:auto needs trial runs: perfkit bench searches, plans take fixed sizes")
        if isinstance(technique, Ckpt):
            return find_least_recomputation(techniques, technique.limit_bytes, plan)
        return None

    return _find_for_variants(request, found)


def _find_for_variants(request: BenchRequest, find_one: _FindOne) -> FoundParams:
    variants: list[Techniques] = []
    searches: list[_Search] = []
    for techniques in request.variants:
        technique = find_open_technique(techniques)
        result = None if technique is None else find_one(techniques, technique)
        if result is None:
            variants.append(techniques)
        else:
            variants.append(result[0])
            searches.append(result[1])
    recomputations = tuple(search for search in searches if isinstance(search, RecomputationSearch))
    return FoundParams(
        request=replace(request, variants=tuple(variants)),
        batches=tuple(search for search in searches if isinstance(search, BatchSearch)),
        recomputations=recomputations,
        refusals={
            search.requested_variant: search.reason for search in recomputations if search.selected_variant is None
        },
    )


def _find_least_recomputation(
    request: BenchRequest, techniques: Techniques, requested: Ckpt, progress: Callable[[Event], None]
) -> Searched:
    name = find_device(request.device).name
    try:
        target, unknown = find_local_target(request.device, name), explain_unknown_gpu(name)
    except UsageError as error:  # several memory sizes, and the driver does not report which
        target, unknown = None, str(error)
    if target is None:
        limit_bytes = requested.limit_bytes
        return techniques, RecomputationSearch(
            requested_variant=format_variant_label(techniques),
            selected_variant=None,
            limit_bytes=limit_bytes,
            trials=(),
            reason=unknown,
        )
    return find_least_recomputation(
        techniques, requested.limit_bytes, make_planner(request, target), make_trial_runner(request, progress)
    )
