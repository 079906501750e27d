"""The used arguments of an event, whatever wrote them.

Lists of shapes stay raw bytes: equal bytes are equal signatures, and each distinct one is parsed once. Numbers are read
leniently, because what is a number and what is text (`7`, `"7"`, `"0x7"`) differs from writer to writer.
"""

import msgspec

Id = int | float | str | bool | None
# Members whose names other writers use for other things must not make an event unreadable.
Anything = Id | list[msgspec.Raw] | dict[str, msgspec.Raw]

NOTHING = msgspec.Raw()


class EventArgs(msgspec.Struct, gc=False):
    """`args` of an event."""

    external_id: Anything = msgspec.field(name="External id", default=-1)
    external_id_old: Anything = msgspec.field(name="external id", default=-1)
    correlation: Anything = -1
    correlation_xla: Anything = msgspec.field(name="correlation_id", default=-1)
    correlation_nsight: Anything = msgspec.field(name="correlationId", default=-1)
    correlation_ascend: Anything = msgspec.field(name="connection_id", default=-1)
    device: Anything = -1
    stream: Anything = -1
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=NOTHING)
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    shared: msgspec.Raw = msgspec.field(name="shared memory", default=NOTHING)
    registers: msgspec.Raw = msgspec.field(name="registers per thread", default=NOTHING)
    blocks_per_sm: msgspec.Raw = msgspec.field(name="blocks per SM", default=NOTHING)
    occupancy: msgspec.Raw = msgspec.field(name="est. achieved occupancy %", default=NOTHING)
    sequence: Anything = msgspec.field(name="Sequence number", default=-1)
    moved: Anything = msgspec.field(name="bytes", default=-1)
    moved_rocm: Anything = msgspec.field(name="size", default=-1)
    address: Anything = msgspec.field(name="Addr", default=0)
    size: Anything = msgspec.field(name="Bytes", default=0)
    device_type: Anything = msgspec.field(name="Device Type", default=0)
    device_id: Anything = msgspec.field(name="Device Id", default=0)
    allocated: Anything = msgspec.field(name="Total Allocated", default=0)
    reserved: Anything = msgspec.field(name="Total Reserved", default=0)
    collective: Anything = msgspec.field(name="Collective name", default=None)
    sent: Anything = msgspec.field(name="In msg nelems", default=None)
    received: Anything = msgspec.field(name="Out msg nelems", default=None)
    dtype: Anything = None
    group: Anything = msgspec.field(name="Process Group Name", default=None)
    group_text: Anything = msgspec.field(name="Process Group Description", default=None)
    group_size: Anything = msgspec.field(name="Group size", default=None)
    group_ranks: Anything = msgspec.field(name="Process Group Ranks", default=None)
    sent_splits: Anything = msgspec.field(name="In split size", default=None)
    received_splits: Anything = msgspec.field(name="Out split size", default=None)
    number: Anything = msgspec.field(name="Seq", default=-1)
    exchange_id: Anything = msgspec.field(name="Comms Id", default=-1)
    graph: Anything = msgspec.field(name="graph id", default=-1)
    graph_node: Anything = msgspec.field(name="graph node id", default=0)
    wait_on_stream: Anything = -1
    event_record: Anything = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=-1)
    kernel: Anything = None  # of a launch, as ROCm's profiler writes it
    flops: Anything = -1
    model_flops: Anything = -1
    accessed: Anything = msgspec.field(name="bytes_accessed", default=-1)
    kernel_details: Anything = None  # of GPU work, as XLA's profiler writes it
    memcpy_details: Anything = None
    memset_details: Anything = msgspec.field(name="Memset_details", default=None)
    long_name: Anything = None  # of an event that XLA's profiler shows by a shorter one
    hlo_op: msgspec.Raw = NOTHING
    step_num: msgspec.Raw = NOTHING
    name: msgspec.Raw = NOTHING  # of a process or thread, in the file's own statements about them
    labels: msgspec.Raw = NOTHING
