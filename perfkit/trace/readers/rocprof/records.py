"""The used members of rocprofv3's JSON as typed structs; all others are skipped while decoding.

Of source/docs/rocprofv3-schema.json and `cxx/serialization/save.hpp` of rocprofiler-sdk. Times are in nanoseconds.
"""

import msgspec


class Handle(msgspec.Struct, gc=False, frozen=True):
    """A number of an agent, a queue or a stream."""

    handle: int = 0


class CorrelationId(msgspec.Struct, gc=False, frozen=True):
    """The number of an API call, which is also that of the work that it starts."""

    internal: int = 0


class Axes(msgspec.Struct, gc=False, frozen=True):
    """Sizes along three axes."""

    x: int = 0
    y: int = 0
    z: int = 0


class DispatchInfo(msgspec.Struct, gc=False, frozen=True):
    """What was dispatched; `grid_size` counts work items, not groups."""

    agent_id: Handle = Handle()
    queue_id: Handle = Handle()
    kernel_id: int = 0
    group_segment_size: int = 0
    workgroup_size: Axes = Axes()
    grid_size: Axes = Axes()


class Call(msgspec.Struct, gc=False):
    """A call of an API, or a range of roctx: `kind` and `operation` index the names of `strings`."""

    kind: int = 0
    operation: int = 0
    correlation_id: CorrelationId = CorrelationId()
    start_timestamp: int = 0
    end_timestamp: int = 0
    thread_id: int = 0


class Dispatch(msgspec.Struct, gc=False):
    """A kernel; versions before 1.0 of the SDK know no streams."""

    correlation_id: CorrelationId = CorrelationId()
    start_timestamp: int = 0
    end_timestamp: int = 0
    dispatch_info: DispatchInfo = DispatchInfo()
    stream_id: Handle | None = None


class Copy(msgspec.Struct, gc=False):
    """A copy; older versions do not tell its size."""

    kind: int = 0
    operation: int = 0
    correlation_id: CorrelationId = CorrelationId()
    start_timestamp: int = 0
    end_timestamp: int = 0
    dst_agent_id: Handle = Handle()
    src_agent_id: Handle = Handle()
    stream_id: Handle | None = None
    bytes: int = -1


class BufferRecords(msgspec.Struct):
    """Records by what they are of."""

    kernel_dispatch: list[Dispatch] = []
    memory_copy: list[Copy] = []
    hip_api: list[Call] = []
    hsa_api: list[Call] = []
    rccl_api: list[Call] = []
    marker_api: list[Call] = []


class Agent(msgspec.Struct):
    """A CPU (type 1) or GPU (type 2); `logical_node_type_id` numbers those of a type."""

    id: Handle = Handle()
    type: int = 0
    name: str = ""
    product_name: str = ""
    cu_count: int = 0
    logical_node_type_id: int = -1


class KernelSymbol(msgspec.Struct):
    """A kernel by its number; the formatted name depends on the options of the recording."""

    kernel_id: int = 0
    kernel_name: str = ""
    demangled_kernel_name: str = ""
    formatted_kernel_name: str = ""
    arch_vgpr_count: int = 0


class KindNames(msgspec.Struct):
    """A kind of records and its operations."""

    kind: str = ""
    operations: list[str] = []


class MarkerText(msgspec.Struct):
    """The text of the range whose call has the number `key`."""

    key: int = 0
    value: str = ""


class Strings(msgspec.Struct):
    """Names that records refer to by number."""

    buffer_records: list[KindNames] = []
    marker_api: list[MarkerText] = []


class Metadata(msgspec.Struct):
    """The process."""

    pid: int = 0


class Process(msgspec.Struct):
    """What was recorded of a process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[KernelSymbol] = []
    buffer_records: BufferRecords = msgspec.field(default_factory=BufferRecords)


class Recording(msgspec.Struct):
    """A file: each element is of a process."""

    processes: list[Process] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)
