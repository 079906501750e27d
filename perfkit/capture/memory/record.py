"""A recording of steps, from the first allocation to the columns that are written."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import msgspec
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from perfkit.allocations import NONE, Allocations, FailedRequest
from perfkit.capture.clock import Step
from perfkit.capture.memory.columns import columns
from perfkit.capture.memory.labels import carried, labels
from perfkit.capture.memory.modules import marked_modules
from perfkit.capture.memory.places import Place, Places
from perfkit.capture.memory.profiler import Allocation, AllocationProfiler, LastOp, Recorded
from perfkit.capture.memory.state import other_blocks, owners, watched_gradients
from perfkit.capture.memory.unseen import with_unseen_frees
from perfkit.record import PHASES, Block

_SOURCE = "every allocation and free that torch's allocator reported"

Blocks = Callable[[], Sequence[Block]]


def record_steps(
    step: Step,
    first: int,
    count: int,
    *,
    device: torch.device,
    model: nn.Module,
    optimizer: Optimizer | None,
    state: Blocks,
    harness: frozenset[int] = frozenset(),
    history: AbstractContextManager[object] = nullcontext(),  # noqa: B008 - it can be entered again and again
) -> Allocations:
    """Record `count` steps, after one that is left out, and take one more apart to tell what their blocks are.

    A CPU's profiler reports no free of what was allocated before it: with one step before the recorded ones, what
    comes and goes with every step has come while it was on.

    Args:
        step: runs an optimizer step.
        first: the number of the first step to run; `count + 2` are run.
        count: how many to record.
        device: whose allocator.
        model, optimizer: what is trained.
        state: the storages of the training state at the time it is called.
        harness: addresses of storages that are the harness's own.
        history: entered around the steps that count, and no others.
    """
    with marked_modules(model):
        with AllocationProfiler(ops=False) as light:
            step(first)
            known = [*state()]
            known += other_blocks(device, known, harness)
            with history:
                for index in range(first + 1, first + 1 + count):
                    step(index)
        found, gradients = owners(model, optimizer), dict[int, Block]()
        with watched_gradients(model, found, gradients), AllocationProfiler(ops=True) as detailed:
            step(first + 1 + count)
    light_places, detail_places = Places(light.recorded.ranges), Places(detailed.recorded.ranges)
    events, details = _of(light.recorded, device), _of(detailed.recorded, device)
    there, everywhere = _at(events.allocations, light_places), _at(details.allocations, detail_places)
    told = labels(details, everywhere, _calls(details, detail_places), found)
    marks = carried(events.allocations, there, details.allocations, everywhere, told)
    whole = list(zip(events.allocations, there, marks, strict=True))
    if dist.is_initialized():  # without a process group every free is seen
        whole = with_unseen_frees(whole)
    start = next((index for index, (_, place, _) in enumerate(whole) if place.step > first), len(whole))
    moving = {event.address for event in (*events.allocations, *details.allocations)}
    known = _with_standing(known, gradients, moving)
    source = f"{_SOURCE} in {count} steps; what each block is was told from one step more"
    return columns(device, whole, known, light_places, source, start)


def record_failing_step(
    step: Callable[[], None],
    *,
    device: torch.device,
    model: nn.Module,
    optimizer: Optimizer | None,
    state: Blocks,
    failure: Callable[[BaseException], FailedRequest | None],
    harness: frozenset[int] = frozenset(),
) -> Allocations:
    """Run one step in every detail that is expected to run out of memory, and tell what was alive when it did.

    `failure` says what request an exception is; None for one that is none, which is raised on. Where the step
    succeeds after all, `failed` of the result is None.
    """
    known = [*state()]
    known += other_blocks(device, known, harness)
    found, gradients = owners(model, optimizer), dict[int, Block]()
    failed: FailedRequest | None = None
    with marked_modules(model), watched_gradients(model, found, gradients):
        profiler = AllocationProfiler(ops=True)
        try:
            with profiler:
                step()
        except (RuntimeError, MemoryError, OSError) as error:
            failed = failure(error)
            if failed is None:
                raise
    places = Places(profiler.recorded.ranges)
    events = _of(profiler.recorded, device)
    there = _at(events.allocations, places)
    told = labels(events, there, _calls(events, places), found)
    known = _with_standing(known, gradients, {event.address for event in events.allocations})
    whole = list(zip(events.allocations, there, told, strict=True))
    recorded = columns(device, whole, known, places, f"{_SOURCE} in the step that failed")
    if failed is not None and profiler.recorded.last is not None:
        failed = _placed(failed, profiler.recorded.last, places)
    return replace(recorded, failed=failed)


def _of(recorded: Recorded, device: torch.device) -> Recorded:
    """The recording with the allocations of one device."""
    mine = [event for event in recorded.allocations if event.device.type == device.type]
    if device.index is not None:
        mine = [event for event in mine if event.device.index == device.index]
    return recorded._replace(allocations=mine)


def _placed(failed: FailedRequest, last: LastOp, places: Places) -> FailedRequest:
    """The request with the place of the op that began last, which is the one that asked for memory."""
    (place,) = places.at([last.time_ns], [last.thread])
    return msgspec.structs.replace(
        failed,
        phase="" if place.phase == NONE else PHASES[place.phase],
        step=None if place.step == NONE else place.step,
        op=last.op,
        module=place.module,
        line=last.line or failed.line,
    )


def _at(events: Sequence[Allocation], places: Places) -> list[Place]:
    return places.at([event.time_ns for event in events], [event.thread for event in events])


def _calls(recorded: Recorded, places: Places) -> Mapping[int, Place]:
    """Where the forward ops were, by sequence number."""
    calls = sorted(recorded.forwards.items(), key=lambda item: item[1].time_ns)
    found = places.at([call.time_ns for _, call in calls], [call.thread for _, call in calls])
    return {number: place for (number, _), place in zip(calls, found, strict=True)}


def _with_standing(known: Sequence[Block], gradients: Mapping[int, Block], moving: set[int]) -> list[Block]:
    """`known` with the storages of gradients that no event came for: they stood all the time, as DDP's buckets do."""
    standing = {address: block for address, block in gradients.items() if address not in moving}
    return [block for block in known if block.address not in standing] + list(standing.values())
