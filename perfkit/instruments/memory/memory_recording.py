"""Records the memory of steps, from the first allocation to the written columns."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import msgspec
import torch
import torch.distributed as dist

from perfkit.core.allocations import NONE, Allocations, FailedRequest, InitialBlock
from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.memory.allocation_places import AllocationPlace, PlaceIndex
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.memory.block_labels import Gradients, TensorOwner, label_blocks
from perfkit.instruments.memory.columns import build_columns
from perfkit.instruments.memory.module_marks import mark_modules
from perfkit.instruments.memory.profiler_events import LastOp, ProfiledAllocation, RecordedEvents
from perfkit.instruments.memory.propagate_labels import propagate_labels
from perfkit.instruments.memory.training_state import find_other_blocks, find_owners, watch_gradients
from perfkit.instruments.memory.unseen_frees import add_unseen_frees, find_blocks_of_hooked_programs
from perfkit.instruments.open_ranges import OpenRangeError, RangeSpan, find_open_ranges
from perfkit.instruments.recording import Recording
from perfkit.instruments.training.trained_models import TrainedModels

_SOURCE = "every allocation and free reported by torch's allocator"

Blocks = Callable[[], Sequence[InitialBlock]]


def record_memory(
    count: int,
    trained: TrainedModels,
    *,
    blocks: Blocks,
    harness: frozenset[int] = frozenset(),
    history: AbstractContextManager[object] = nullcontext(),  # noqa: B008 - it can be entered again and again
) -> Recording[Allocations]:
    """Record `count` steps, after one that is left out, and one more in detail to identify their blocks.

    Needs `count + 3` steps, each in a range with its increasing number (`step_mark`). A CPU's profiler reports no frees
    of earlier allocations: with one step before the recorded ones, everything that a step replaces was allocated while
    it was on. One step before the last is not recorded.

    Args:
        count: how many steps to record.
        trained: the trained models and optimizers, and the device whose allocator is recorded.
        blocks: the storages of the training state at the time it is called.
        harness: addresses of the harness's own storages.
        history: context around the recorded steps only.
    """
    device = trained.device
    with mark_modules(trained):
        with AllocationProfiler(ops=False) as light:
            yield
            known = [*blocks()]
            known += find_other_blocks(device, known, harness)
            with history, watch_gradients(trained) as optimizer_gradients:
                for _ in range(count):
                    yield
            held = find_blocks_of_hooked_programs() if dist.is_initialized() else None
        yield  # between two profilers
        still_open = find_open_ranges(
            RangeSpan(mark.name, mark.start_ns, mark.end_ns) for mark in light.recorded.ranges
        )
        if still_open:
            raise OpenRangeError(still_open)
        owned = find_owners(trained)
        with watch_gradients(trained) as gradients, AllocationProfiler(ops=True) as detailed:
            yield
    light_places, detail_places = PlaceIndex(light.recorded.ranges), PlaceIndex(detailed.recorded.ranges)
    events, details = _select_device(light.recorded, device), _select_device(detailed.recorded, device)
    there, everywhere = _find_places(events.allocations, light_places), _find_places(details.allocations, detail_places)
    labels = label_blocks(details, everywhere, _find_call_places(details, detail_places), owned, gradients)
    marks = propagate_labels(events.allocations, there, details.allocations, everywhere, labels)
    entries = list(zip(events.allocations, there, marks, strict=True))
    if dist.is_initialized():  # without a process group every free is seen
        entries = add_unseen_frees(entries, held)
    left_out = light_places.first_step
    start = next((index for index, (_, place, _) in enumerate(entries) if place.step > left_out), len(entries))
    known = _add_standing_gradients(known, optimizer_gradients, events.allocations)
    source = f"{_SOURCE} in {count} steps; categories from one extra step"
    return build_columns(device, entries, known, light_places, source, start)


def record_failing_step(
    step: Callable[[], None],
    trained: TrainedModels,
    *,
    blocks: Blocks,
    failure: Callable[[BaseException], FailedRequest | None],
    harness: frozenset[int] = frozenset(),
) -> Allocations:
    """Record, in detail, a step that is expected to run out of memory, with the live blocks at the failure.

    `failure` returns the failed request of an exception, or None for other exceptions, which are raised. If the step
    succeeds after all, the result's `failed` is None.
    """
    device = trained.device
    known = [*blocks()]
    known += find_other_blocks(device, known, harness)
    owned = find_owners(trained)
    failed: FailedRequest | None = None
    with mark_modules(trained), watch_gradients(trained) as gradients:
        profiler = AllocationProfiler(ops=True)
        try:
            with profiler:
                step()
        except (RuntimeError, MemoryError, OSError) as error:
            failed = failure(error)
            if failed is None:
                raise
    result = label_recording(profiler.recorded, device, known, owned, gradients, source=f"{_SOURCE} in the failed step")
    if failed is not None and profiler.recorded.last is not None:
        failed = _add_place(failed, profiler.recorded.last, PlaceIndex(profiler.recorded.ranges))
    return replace(result, failed=failed)


def label_recording(
    recorded: RecordedEvents,
    device: torch.device,
    known: Sequence[InitialBlock],
    owned: Mapping[int, TensorOwner],
    gradients: Gradients,
    *,
    source: str,
) -> Allocations:
    """The allocations of `device` in a recording of ops, identified by that recording.

    `known` are the storages at its start, `owned` the persistent tensors, by their `_cdata`.
    """
    places = PlaceIndex(recorded.ranges)
    events = _select_device(recorded, device)
    there = _find_places(events.allocations, places)
    labels = label_blocks(events, there, _find_call_places(events, places), owned, gradients)
    entries = list(zip(events.allocations, there, labels, strict=True))
    return build_columns(device, entries, _add_standing_gradients(known, gradients, events.allocations), places, source)


def _select_device(recorded: RecordedEvents, device: torch.device) -> RecordedEvents:
    """The recording with the allocations of one device."""
    mine = [event for event in recorded.allocations if event.device.type == device.type]
    if device.index is not None:
        mine = [event for event in mine if event.device.index == device.index]
    return recorded._replace(allocations=mine)


def _add_place(failed: FailedRequest, last: LastOp, places: PlaceIndex) -> FailedRequest:
    """The request with the place of the last op, which requested the memory."""
    (place,) = places.at([last.time_ns], [last.thread])
    return msgspec.structs.replace(
        failed,
        phase="" if place.phase == NONE else PHASES[place.phase],
        step=None if place.step == NONE else place.step,
        op=last.op,
        module=place.module,
        line=last.line or failed.line,
    )


def _find_places(events: Sequence[ProfiledAllocation], places: PlaceIndex) -> list[AllocationPlace]:
    return places.at([event.time_ns for event in events], [event.thread for event in events])


def _find_call_places(recorded: RecordedEvents, places: PlaceIndex) -> Mapping[int, AllocationPlace]:
    """Find the places of the forward ops, by sequence number."""
    calls = sorted(recorded.forwards.items(), key=lambda item: item[1].time_ns)
    forward_places = places.at([call.time_ns for _, call in calls], [call.thread for _, call in calls])
    return {number: place for (number, _), place in zip(calls, forward_places, strict=True)}


def _add_standing_gradients(
    known: Sequence[InitialBlock], gradients: Gradients, events: Sequence[ProfiledAllocation]
) -> list[InitialBlock]:
    """`known` with the storages of gradients without events: they are permanent, like DDP's buckets."""
    moving = {event.address for event in events}
    standing = {address: sightings[0].block for address, sightings in gradients.items() if address not in moving}
    return [block for block in known if block.address not in standing] + list(standing.values())
