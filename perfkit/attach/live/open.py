"""A watch for a loop that perfkit has got to know."""

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from perfkit.attach.delivery import Delivery
from perfkit.attach.live.triggers import Triggers
from perfkit.attach.live.watch import Callback, LiveWatch, open_watch
from perfkit.attach.session import Session
from perfkit.devices.peak import conventional_kind, matrix_ceiling
from perfkit.record import Quantity, value_of
from perfkit.store.live import LIVE_FILE, LiveStart


@dataclass(frozen=True, kw_only=True)
class LiveWishes:
    """What a program's author wants of a watch."""

    trace_on: Collection[str]
    on_outlier: Callback | None
    on_drift: Callback | None
    flops_per_step: float | None


def watch_of(
    wishes: LiveWishes, deliveries: Sequence[Delivery], session: Session, counted: Quantity | None
) -> tuple[LiveWatch, Triggers]:
    """The watch of an opened session, and what asks for traces; `counted` are the FLOPs of a step, if they were."""
    assert session.main is not None
    record = session.main.recorder.record
    assert record.environment is not None
    assert record.workload is not None
    units = record.workload.units_per_batch
    triggers = Triggers(wishes.trace_on, session.folder, rank=session.world.rank, world_size=session.world.size)
    start = LiveStart(
        time_s=time.time(),
        pid=os.getpid(),
        hostname=record.environment.hostname,
        name=session.wishes.name,
        device_name=record.environment.device_name,
        unit=record.workload.unit if units else "",
        flops_per_step=wishes.flops_per_step if wishes.flops_per_step is not None else value_of(counted),
        peak_flops=_peak(session, record.compute_dtype),
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
    )
    return watch, triggers


def _peak(session: Session, dtype: str) -> float | None:
    """FLOP/s that this rank's utilisation refers to; None where they are not known."""
    known = session.ceilings
    if known is None or known.device != session.trained.device.type:
        return None
    tf32 = torch.get_float32_matmul_precision() != "highest"
    kind = conventional_kind(known.device)
    ceiling = matrix_ceiling(known, dtype, threads=torch.get_num_threads(), tf32=tf32, kind=kind)
    return None if ceiling is None else ceiling.value
