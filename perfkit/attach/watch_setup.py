"""A watch for a loop that perfkit has got to know."""

import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from perfkit.attach.host.delivery import Delivery
from perfkit.attach.live.live_watch import Callback, LiveWatch, open_watch
from perfkit.attach.live.step_flops import StepFlops
from perfkit.attach.live.trace_triggers import TraceTriggers
from perfkit.attach.loop_session import LoopSession
from perfkit.core.record.quantity import get_value
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.kernels.fp32_products import group_by_compute_dtype
from perfkit.devices.ceilings.mixed_peak import MixedPeak, compute_mixed_peak, format_peak
from perfkit.devices.ceilings.peak import Fp32Settings, find_matrix_ceiling, get_utilization_kind
from perfkit.instruments.training.tensors import read_product_settings
from perfkit.store.live import LIVE_FILE, LiveStart


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """The author's options of a watch."""

    trace_on: Collection[str]
    on_outlier: Callback | None
    on_drift: Callback | None
    flops_per_step: float | None


def create_watch(
    wishes: WatchOptions, deliveries: Sequence[Delivery], session: LoopSession, counted: StepFlops | None
) -> tuple[LiveWatch, TraceTriggers]:
    """Create the watch of an opened session and its trace triggers; `counted` are the FLOPs of a step, if any."""
    assert session.main is not None
    record = session.main.recorder.record
    assert record.environment is not None
    assert record.workload is not None
    units = record.workload.units_per_batch
    triggers = TraceTriggers(wishes.trace_on, session.folder, rank=session.world.rank, world_size=session.world.size)
    peak = find_peak(session, record.compute_dtype, counted)
    changed = session.main.have_shapes_changed()
    start = LiveStart(
        time_s=time.time(),
        pid=os.getpid(),
        hostname=record.environment.hostname,
        name=session.wishes.name,
        device_name=record.environment.device_name,
        unit=record.workload.unit if units else "",
        flops_per_step=get_step_flops(wishes, counted, changed=changed),
        peak_flops=None if peak is None else peak.value,
        peak="" if peak is None else format_peak(peak),
        trace_on=tuple(sorted(wishes.trace_on)),
    )
    watch = open_watch(
        session.main.recorder.folder / LIVE_FILE,
        start,
        session.trained.device,
        triggers=triggers,
        deliveries=deliveries,
        on_outlier=wishes.on_outlier,
        on_drift=wishes.on_drift,
        units_per_step=units or None,
        first_steps=[step_s * 1e9 for step_s in record.samples.device_s or record.samples.wall_s],
    )
    return watch, triggers


def get_step_flops(wishes: WatchOptions, counted: StepFlops | None, *, changed: bool) -> float | None:
    """The FLOPs of a step, as stated or `counted`; None where unknown. Where shapes of inputs have `changed`, those of
    the counted step are not those of others."""
    if counted is None:
        return wishes.flops_per_step
    return None if changed else get_value(counted.total)


def find_peak(session: LoopSession, dtype: str, counted: StepFlops | None) -> MixedPeak[tuple[ComputeUnit, str]] | None:
    """The reference rate of this rank's utilization; None where unknown."""
    known, device = session.ceilings, session.trained.device
    if known is None or known.device != device.type:
        return None
    kind, settings = get_utilization_kind(known.device), read_product_settings(device)
    if counted is not None and counted.by_operands:
        computed = group_by_compute_dtype(counted.by_operands, settings)
    elif settings is not None and _is_mix_unknown(session.trained.models.values(), dtype, settings):
        return None
    else:
        computed = {dtype: 1.0}
    return compute_mixed_peak(
        {(ComputeUnit.MATRIX, operand): flops for operand, flops in computed.items()},
        lambda key: find_matrix_ceiling(known, key[1], threads=torch.get_num_threads(), kind=kind),
    )


def _is_mix_unknown(models: Iterable[nn.Module], dtype: str, settings: Fp32Settings) -> bool:
    """True if uncounted FLOPs may include convolutions or recurrent layers whose fp32 runs in a different dtype than
    GEMMs, so that the peak of the mix is unknown."""
    kinds: dict[type[nn.Module], str] = {nn.modules.conv._ConvNd: settings.conv, nn.RNNBase: settings.rnn}
    return dtype in ("fp32", "tf32") and any(
        isinstance(module, kind) and setting != settings.matmul
        for model in models
        for module in model.modules()
        for kind, setting in kinds.items()
    )
