"""A recording of steps, from the first allocation to the columns that are written."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import msgspec
import torch
import torch.distributed as dist

from perfkit.allocations import NONE, Allocations, FailedRequest
from perfkit.instruments.memory.allocation_places import AllocationPlace, PlaceIndex
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.memory.block_labels import Gradients, TensorOwner, label_blocks
from perfkit.instruments.memory.columns import build_columns
from perfkit.instruments.memory.module_marks import mark_modules
from perfkit.instruments.memory.profiler_events import LastOp, ProfiledAllocation, RecordedEvents
from perfkit.instruments.memory.propagate_labels import propagate_labels
from perfkit.instruments.memory.training_state import find_other_blocks, find_owners, watch_gradients
from perfkit.instruments.memory.unseen_frees import add_unseen_frees
from perfkit.instruments.open_ranges import OpenRangeError, RangeSpan, find_open_ranges
from perfkit.instruments.recording import Recording
from perfkit.instruments.trained_models import TrainedModels
from perfkit.record import PHASES, InitialBlock

_SOURCE = "every allocation and free that torch's allocator reported"

Blocks = Callable[[], Sequence[InitialBlock]]


def record_memory(
    count: int,
    trained: TrainedModels,
    *,
    blocks: Blocks,
    harness: frozenset[int] = frozenset(),
    history: AbstractContextManager[object] = nullcontext(),  # noqa: B008 - it can be entered again and again
) -> Recording[Allocations]:
    """Record `count` steps, after one that is left out, and take one more apart to tell what their blocks are.

    Wants `count + 3` steps, each in a range with its number (`step_mark`), which grows. A CPU's profiler reports no
    free of what was allocated before it: with one step before the recorded ones, what comes and goes with every step
    has come while it was on. Before the last one lies one that is not recorded.

    Args:
        count: how many steps to record.
        trained: what is trained, and the device whose allocator is recorded.
        blocks: the storages of the training state at the time it is called.
        harness: addresses of storages that are the harness's own.
        history: entered around the steps that count, and no others.
    """
    device = trained.device
    with mark_modules(trained):
        with AllocationProfiler(ops=False) as light:
            yield
            known = [*blocks()]
            known += find_other_blocks(device, known, harness)
            with history, watch_gradients(trained) as seen:
                for _ in range(count):
                    yield
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
    whole = list(zip(events.allocations, there, marks, strict=True))
    if dist.is_initialized():  # without a process group every free is seen
        whole = add_unseen_frees(whole)
    left_out = light_places.first_step
    start = next((index for index, (_, place, _) in enumerate(whole) if place.step > left_out), len(whole))
    known = _add_standing_gradients(known, seen, events.allocations)
    source = f"{_SOURCE} in {count} steps; categories from one extra step"
    return build_columns(device, whole, known, light_places, source, start)


def record_failing_step(
    step: Callable[[], None],
    trained: TrainedModels,
    *,
    blocks: Blocks,
    failure: Callable[[BaseException], FailedRequest | None],
    harness: frozenset[int] = frozenset(),
) -> Allocations:
    """Run one step in every detail that is expected to run out of memory, and tell what was alive when it did.

    `failure` says what request an exception is; None for one that is none, which is raised on. Where the step
    succeeds after all, `failed` of the result is None.
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
    result = label_recording(
        profiler.recorded, device, known, owned, gradients, source=f"{_SOURCE} in the step that failed"
    )
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
    """The allocations of `device` in a recording of ops, told by that recording itself.

    `known` are the storages that were there when it began, `owned` those tensors that stay, by their `_cdata`.
    """
    places = PlaceIndex(recorded.ranges)
    events = _select_device(recorded, device)
    there = _find_places(events.allocations, places)
    labels = label_blocks(events, there, _find_call_places(events, places), owned, gradients)
    whole = list(zip(events.allocations, there, labels, strict=True))
    return build_columns(device, whole, _add_standing_gradients(known, gradients, events.allocations), places, source)


def _select_device(recorded: RecordedEvents, device: torch.device) -> RecordedEvents:
    """The recording with the allocations of one device."""
    mine = [event for event in recorded.allocations if event.device.type == device.type]
    if device.index is not None:
        mine = [event for event in mine if event.device.index == device.index]
    return recorded._replace(allocations=mine)


def _add_place(failed: FailedRequest, last: LastOp, places: PlaceIndex) -> FailedRequest:
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
    """`known` with the storages of gradients that no event came for: they stood all the time, as DDP's buckets do."""
    moving = {event.address for event in events}
    standing = {address: seen[0].block for address, seen in gradients.items() if address not in moving}
    return [block for block in known if block.address not in standing] + list(standing.values())
