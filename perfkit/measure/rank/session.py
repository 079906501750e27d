"""A rank's training session: the state under test, its data, its clock, and the record it fills."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import torch
import torch.distributed as dist

from perfkit.core.spec import RunSpec
from perfkit.devices.accelerator import has_own_memory
from perfkit.instruments.clock import Clock, round_to_cycles
from perfkit.instruments.recorder import Recorder
from perfkit.instruments.sensors.process_memory import ResidentPeak, read_device_moment
from perfkit.instruments.sensors.sensors import Sensors
from perfkit.measure.rank.loaded_data import BatchSource, Microbatches, make_microbatches
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.technique import Technique


@dataclass
class TrainingSession:
    """State that the passes share.

    `reference_saved` are the bytes that each block of the unmodified model saves for backward, by name; empty where it
    was not measured. `next_step` counts optimizer steps since the start, over all passes.
    """

    spec: RunSpec
    state: TrainState
    techniques: tuple[Technique, ...]
    data: BatchSource
    clock: Clock
    recorder: Recorder
    sensors: Sensors | None
    report: Callable[[str], None]
    reference_saved: dict[str, int] = field(default_factory=dict)
    losses: list[torch.Tensor] = field(default_factory=list)
    next_step: int = 0

    def batches(self, index: int) -> Microbatches:
        """The microbatches of optimizer step `index`, on the host."""
        return make_microbatches(self.data, index, self.spec.accumulation, self.state.microbatches)

    def step(self, index: int) -> None:
        """Run optimizer step `index`; its loss is kept on the device."""
        self.next_step = index
        self.losses.append(train_step(self.state, self.batches(index), index))
        self.next_step = index + 1

    def round_to_cycles(self, count: int) -> int:
        """So many steps, and as many more as make whole cycles of them."""
        return round_to_cycles(count, self.state.cycle)

    def gather_losses(self) -> None:
        """Put all losses so far into one tensor: how many steps came before shall not show in the peaks of the next."""
        if self.losses:
            self.losses = [torch.cat([loss.float().reshape(-1) for loss in self.losses])]

    def agree(self, answer: bool) -> bool:
        """True if all ranks agree."""
        if self.state.world.size == 1:
            return answer
        votes = torch.tensor(int(answer), device=self.state.device)
        dist.all_reduce(votes, dist.ReduceOp.MIN)
        return bool(votes.item())

    def reduce_max(self, count: int) -> int:
        """The largest of all ranks' counts."""
        if self.state.world.size == 1:
            return count
        counts = torch.tensor(count, device=self.state.device)
        dist.all_reduce(counts, dist.ReduceOp.MAX)
        return int(counts.item())


def compute_mean_losses(losses: list[torch.Tensor], world: World) -> tuple[float, ...]:
    """The losses of consecutive steps, averaged over ranks."""
    series = torch.cat([loss.float().reshape(-1) for loss in losses])
    if world.size > 1:
        dist.all_reduce(series)
        series /= world.size
    return tuple(series.tolist())


def keep_moment(session: TrainingSession, name: str) -> None:
    """Record the device's memory now as the moment of this name in `ProcessMemory`; nothing on a CPU."""
    if has_own_memory(session.state.device):
        _update_process_memory(session, **{name: read_device_moment(session.state.device, session.sensors)})


def keep_peak(session: TrainingSession, resident: ResidentPeak) -> None:
    """Keep the process's peak that was measured now, and what a GPU holds with the memory pass done."""
    device = session.state.device
    at_end = read_device_moment(device, session.sensors) if has_own_memory(device) else None
    _update_process_memory(session, peak=resident.peak, mapped_after=resident.mapped, at_end=at_end)


def _update_process_memory(session: TrainingSession, **measured: object) -> None:
    memory = msgspec.structs.replace(session.recorder.record.process_memory, **measured)
    session.recorder.update(process_memory=memory)
