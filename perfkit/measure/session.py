"""A rank's training session: the state under test, its data, its clock, and the record it fills."""

import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from perfkit.files import write_json
from perfkit.instruments.clock import Clock
from perfkit.instruments.process_memory import ResidentPeak, device_moment
from perfkit.instruments.sensors import Sensors
from perfkit.measure.data import BatchPool
from perfkit.measure.step import train_step
from perfkit.record import ProcessMemory, RankRecord
from perfkit.spec import RunSpec
from perfkit.store.layout import RECORD_FILE
from perfkit.techniques.state import TrainState, World
from perfkit.techniques.technique import Technique


class Recorder:
    """The record of one rank, written again at every update, so that a killed worker leaves what it had."""

    def __init__(self, folder: Path, record: RankRecord) -> None:
        self.folder = folder
        self.record = record
        self.write()

    def update(self, **fields: object) -> None:
        """Replace fields of the record and write it."""
        self.record = msgspec.structs.replace(self.record, **fields)
        self.write()

    def add_facts(self, facts: dict[str, float], notes: dict[str, str] | None = None) -> None:
        """Add facts and explanations of facts."""
        self.update(facts={**self.record.facts, **facts}, fact_notes={**self.record.fact_notes, **(notes or {})})

    def warn(self, warning: str) -> None:
        """Add what the report should say beside the numbers."""
        self.update(warnings=(*self.record.warnings, warning))

    def write(self) -> None:
        write_json(self.folder / RECORD_FILE, self.record)


@dataclass
class Session:
    """What the passes share. `next_step` counts optimizer steps since the start, over all passes."""

    spec: RunSpec
    state: TrainState
    techniques: tuple[Technique, ...]
    data: BatchPool
    clock: Clock
    recorder: Recorder
    sensors: Sensors | None
    report: Callable[[str], None]
    losses: list[torch.Tensor] = field(default_factory=list)
    next_step: int = 0

    def step(self, index: int) -> None:
        """Run optimizer step `index`; its loss is kept on the device."""
        self.next_step = index
        self.losses.append(train_step(self.state, self.data.step(index, self.spec.accumulation), index))
        self.next_step = index + 1

    def gather_losses(self) -> None:
        """Put all losses so far into one tensor: how many steps came before shall not show in the peaks of the next."""
        if self.losses:
            self.losses = [torch.cat([loss.float().reshape(-1) for loss in self.losses])]

    def agree(self, answer: bool) -> bool:
        """Whether all ranks say yes."""
        if self.state.world.size == 1:
            return answer
        votes = torch.tensor(int(answer), device=self.state.device)
        dist.all_reduce(votes, dist.ReduceOp.MIN)
        return bool(votes.item())

    def most(self, count: int) -> int:
        """The largest of all ranks' counts."""
        if self.state.world.size == 1:
            return count
        counts = torch.tensor(count, device=self.state.device)
        dist.all_reduce(counts, dist.ReduceOp.MAX)
        return int(counts.item())


def mean_losses(losses: list[torch.Tensor], world: World) -> tuple[float, ...]:
    """The losses of consecutive steps, averaged over ranks."""
    series = torch.cat([loss.float().reshape(-1) for loss in losses])
    if world.size > 1:
        dist.all_reduce(series)
        series /= world.size
    return tuple(series.tolist())


def with_peak(session: Session, resident: ResidentPeak) -> ProcessMemory:
    """What was read of the process before the model, with the peak that was measured now."""
    device = session.state.device
    return msgspec.structs.replace(
        session.recorder.record.process_memory,
        peak=resident.peak,
        mapped_after=resident.mapped,
        at_end=device_moment(device, session.sensors) if device.type == "cuda" else None,
    )


def peak_rss_bytes() -> int:
    """The process's largest resident set so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB
