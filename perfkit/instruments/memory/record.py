"""A recording of steps, from the first allocation to the columns that are written."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import msgspec
import torch
import torch.distributed as dist

from perfkit.allocations import NONE, Allocations, FailedRequest
from perfkit.instruments.memory.carried import carried
from perfkit.instruments.memory.columns import columns
from perfkit.instruments.memory.labels import Gradients, Owner, labels
from perfkit.instruments.memory.modules import marked_modules
from perfkit.instruments.memory.places import Place, Places
from perfkit.instruments.memory.profiled import Allocation, LastOp, Recorded
from perfkit.instruments.memory.profiler import AllocationProfiler
from perfkit.instruments.memory.state import other_blocks, owners, watched_gradients
from perfkit.instruments.memory.unseen import with_unseen_frees
from perfkit.instruments.open_ranges import OpenRangeError, Span, lasting
from perfkit.instruments.recording import Recording
from perfkit.instruments.trained import Trained
from perfkit.record import PHASES, InitialBlock

_SOURCE = "every allocation and free that torch's allocator reported"

Blocks = Callable[[], Sequence[InitialBlock]]


def recorded(
    count: int,
    trained: Trained,
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
    with marked_modules(trained):
        with AllocationProfiler(ops=False) as light:
            yield
            known = [*blocks()]
            known += other_blocks(device, known, harness)
            with history, watched_gradients(trained) as seen:
                for _ in range(count):
                    yield
        yield  # between two profilers
        still_open = lasting(Span(mark.name, mark.start_ns, mark.end_ns) for mark in light.recorded.ranges)
        if still_open:
            raise OpenRangeError(still_open)
        owned = owners(trained)
        with watched_gradients(trained) as gradients, AllocationProfiler(ops=True) as detailed:
            yield
    light_places, detail_places = Places(light.recorded.ranges), Places(detailed.recorded.ranges)
    events, details = _of(light.recorded, device), _of(detailed.recorded, device)
    there, everywhere = _at(events.allocations, light_places), _at(details.allocations, detail_places)
    told = labels(details, everywhere, _calls(details, detail_places), owned, gradients)
    marks = carried(events.allocations, there, details.allocations, everywhere, told)
    whole = list(zip(events.allocations, there, marks, strict=True))
    if dist.is_initialized():  # without a process group every free is seen
        whole = with_unseen_frees(whole)
    left_out = light_places.first_step
    start = next((index for index, (_, place, _) in enumerate(whole) if place.step > left_out), len(whole))
    known = _with_standing(known, seen, events.allocations)
    source = f"{_SOURCE} in {count} steps; what each block is was told from one step more"
    return columns(device, whole, known, light_places, source, start)


def record_failing_step(
    step: Callable[[], None],
    trained: Trained,
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
    known += other_blocks(device, known, harness)
    owned = owners(trained)
    failed: FailedRequest | None = None
    with marked_modules(trained), watched_gradients(trained) as gradients:
        profiler = AllocationProfiler(ops=True)
        try:
            with profiler:
                step()
        except (RuntimeError, MemoryError, OSError) as error:
            failed = failure(error)
            if failed is None:
                raise
    result = in_detail(profiler.recorded, device, known, owned, gradients, source=f"{_SOURCE} in the step that failed")
    if failed is not None and profiler.recorded.last is not None:
        failed = _placed(failed, profiler.recorded.last, Places(profiler.recorded.ranges))
    return replace(result, failed=failed)


def in_detail(
    recorded: Recorded,
    device: torch.device,
    known: Sequence[InitialBlock],
    owned: Mapping[int, Owner],
    gradients: Gradients,
    *,
    source: str,
) -> Allocations:
    """The allocations of `device` in a recording of ops, told by that recording itself.

    `known` are the storages that were there when it began, `owned` those tensors that stay, by their `_cdata`.
    """
    places = Places(recorded.ranges)
    events = _of(recorded, device)
    there = _at(events.allocations, places)
    told = labels(events, there, _calls(events, places), owned, gradients)
    whole = list(zip(events.allocations, there, told, strict=True))
    return columns(device, whole, _with_standing(known, gradients, events.allocations), places, source)


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
    forward_places = places.at([call.time_ns for _, call in calls], [call.thread for _, call in calls])
    return {number: place for (number, _), place in zip(calls, forward_places, strict=True)}


def _with_standing(
    known: Sequence[InitialBlock], gradients: Gradients, events: Sequence[Allocation]
) -> list[InitialBlock]:
    """`known` with the storages of gradients that no event came for: they stood all the time, as DDP's buckets do."""
    moving = {event.address for event in events}
    standing = {address: seen[0].block for address, seen in gradients.items() if address not in moving}
    return [block for block in known if block.address not in standing] + list(standing.values())
