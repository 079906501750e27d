"""Records all allocations with torch's profiler, with ranges only or with every op."""

import sys
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import PurePath
from types import TracebackType
from typing import Any, NamedTuple, Self

from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import (
    ProfilerConfig,
    ProfilerState,
    RecordScope,
    _EventType,
    _ProfilerEvent,
    _TensorMetadata,
)
from torch.profiler import ProfilerActivity

from perfkit.instruments.memory.profiler_events import (
    ForwardCall,
    LastOp,
    MarkedRange,
    ProfiledAllocation,
    RecordedEvents,
    TensorUse,
)
from perfkit.instruments.memory.unscoped_allocations import add_unscoped
from perfkit.instruments.profiler_backend import make_plain_config
from perfkit.instruments.recording import EndNow, check_same_thread

# Ops that only allocate for the enclosing op, which is named instead.
ALLOCATORS = ("aten::empty", "aten::resize_", "aten::new_empty", "aten::zeros", "aten::set_")

# Skipped frames: torch, Python's standard library, the recorder and its hooks.
_LIBRARIES = frozenset({"torch", *sys.stdlib_module_names})
_RECORDER = ("perfkit/instruments/", "perfkit/attach/", "perfkit/integrations/", "perfkit/measure/rank/worker.py")
_COMPILED = "torchinductor"  # folder of Inductor's generated code


class AllocationProfiler:
    """Records inside this context; `recorded` is available afterwards, also after an exception.

    Without `ops`, only marked ranges and allocations are recorded, at about 1 % of a step. With `ops`, every op is
    recorded with inputs and Python frames: several times the cost, and on a CPU its heap between the tensors forces new
    pages in every step.

    Not while another torch profiler is active: torch has only one.
    """

    def __init__(self, *, ops: bool) -> None:
        self._ops = ops
        self._recorded: RecordedEvents | None = None
        self._thread = threading.get_ident()  # the recording's, once started

    @property
    def recorded(self) -> RecordedEvents:
        assert self._recorded is not None, "the recording is available only after the profiler has ended"
        return self._recorded

    def __enter__(self) -> Self:
        config = ProfilerConfig(
            ProfilerState.KINETO,
            self._ops,  # input shapes
            True,  # memory
            self._ops,  # stacks
            False,
            False,
            make_plain_config(),
        )
        activities = {ProfilerActivity.CPU}
        scopes = {RecordScope.USER_SCOPE}
        if self._ops:
            scopes |= {RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION}
        self._thread = threading.get_ident()
        _prepare_profiler(config, activities)
        _enable_profiler(config, activities, scopes)  # type: ignore[call-arg]  # the stub lacks the scopes
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        check_same_thread(self._thread)
        result = _disable_profiler()
        if not isinstance(error, EndNow | GeneratorExit):  # not needed
            self._recorded = add_unscoped(_flatten_events(result.experimental_event_tree()), result)


class _EventContext(NamedTuple):
    """The enclosing ops and frames of an event."""

    op: str = ""
    node: str = ""
    call: int = 0
    sequence: int = -1
    line: str = ""
    inputs: tuple[int, ...] = ()


def _flatten_events(roots: Iterable[_ProfilerEvent]) -> RecordedEvents:
    recorded = RecordedEvents([], [], [], {})
    last: LastOp | None = None
    open_events = [(root, _EventContext()) for root in reversed(list(roots))]
    while open_events:
        event, around = open_events.pop()
        fields: Any = event.typed[1]
        if event.tag == _EventType.Allocation:
            recorded.allocations.append(_build_allocation(event, fields, around))
        elif event.tag == _EventType.TorchOp:
            around = _enter_op(event, fields, around, recorded)
            if fields.scope != RecordScope.USER_SCOPE and (last is None or event.start_time_ns >= last.time_ns):
                last = LastOp(event.start_time_ns, event.start_tid, _get_node_name(around.op), around.line)
        elif event.tag == _EventType.PyCall:
            line = _format_line(fields.callsite) or _format_line(fields.caller)
            around = around._replace(line=line or around.line)
        elif event.tag == _EventType.PyCCall:
            around = around._replace(line=_format_line(fields.caller) or around.line)
        open_events += [(child, around) for child in reversed(event.children)]
    recorded.allocations.sort(key=lambda allocation: allocation.time_ns)
    recorded.ranges.sort(key=lambda mark: (mark.start_ns, -mark.end_ns))
    recorded.uses.sort(key=lambda use: use.time_ns)
    return recorded._replace(last=last)


def _build_allocation(event: _ProfilerEvent, fields: Any, around: _EventContext) -> ProfiledAllocation:
    return ProfiledAllocation(
        time_ns=event.start_time_ns,
        thread=event.start_tid,
        address=fields.ptr,
        size=fields.alloc_size,
        device=fields.device,
        allocated=fields.total_allocated,
        op=around.op,
        node=around.node,
        call=around.call,
        sequence=around.sequence,
        line=around.line,
        inputs=around.inputs,
    )


def _enter_op(event: _ProfilerEvent, fields: Any, around: _EventContext, recorded: RecordedEvents) -> _EventContext:
    """Build the context of events inside an op or a marked range."""
    name: str = fields.name
    if fields.scope == RecordScope.USER_SCOPE:
        recorded.ranges.append(MarkedRange(name, event.start_tid, event.start_time_ns, event.end_time_ns))
        return around
    tensors = tuple(_list_tensors(fields.inputs))
    recorded.uses.extend(
        TensorUse(event.start_time_ns, tensor.storage_data_ptr, tensor.impl_ptr or 0, tuple(tensor.sizes), tensor.dtype)
        for tensor in tensors
        if tensor.storage_data_ptr
    )
    addresses = tuple(tensor.storage_data_ptr for tensor in tensors if tensor.storage_data_ptr)
    if fields.scope == RecordScope.BACKWARD_FUNCTION:
        return around._replace(
            op=_get_node_name(name),
            node=_get_node_name(name),
            call=event.start_time_ns,
            sequence=fields.sequence_number,
            inputs=addresses,
        )
    if around.op and name.startswith(ALLOCATORS):
        return around
    if fields.sequence_number >= 0 and not around.node:
        call = ForwardCall(event.start_time_ns, event.start_tid, around.line)
        # Ops without a node record the number of the next one that has it: the last to begin is the match.
        if call.time_ns >= recorded.forwards.get(fields.sequence_number, call).time_ns:
            recorded.forwards[fields.sequence_number] = call
    return around._replace(op=name, call=event.start_time_ns, inputs=addresses)


def _list_tensors(inputs: Iterable[Any]) -> Iterator[_TensorMetadata]:
    for value in inputs:
        if isinstance(value, _TensorMetadata):
            yield value
        elif isinstance(value, list):
            yield from _list_tensors(value)


def _get_node_name(name: str) -> str:
    return name.removeprefix("autograd::engine::evaluate_function: ")


def _format_line(frame: Any) -> str:
    """`gpt.py:135 forward`; "" for frames of torch, compiled code, the standard library and the recorder.

    torch keeps the names of a frame by address: where the program freed the code, as torch.compile does, the bytes may
    be others' by now (seen with 2.13), and then there is no name.
    """
    try:
        file = _shorten_file(frame.file_name)
    except UnicodeDecodeError:
        return ""
    return f"{file}:{frame.line_number} {frame.function_name}" if file else ""


@cache  # few files, many frames
def _shorten_file(name: str) -> str:
    path = PurePath(name)
    first = path.parts[0].removesuffix(".py") if path.parts else ""
    ours = any(part in path.as_posix() for part in _RECORDER)  # torch strips known search paths
    if first in _LIBRARIES or first.startswith("<") or ours or _COMPILED in str(path):
        return ""
    return "/".join(path.parts[-2:])
