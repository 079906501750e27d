"""Feed the reader of traces with mutated bytes: it may refuse a file with an error of its own, and nothing else.

    python tests/fuzz/fuzz_reader.py -runs=20000

The options are libFuzzer's. A folder given as an argument is the corpus; without one a few small traces are the seeds.
"""

import json
import sys
import tempfile
import zlib
from pathlib import Path

import atheris

from tests.fixtures.protobuf import Value, encode, encode_trace

with atheris.instrument_imports(include=["perfkit.trace"]):
    from perfkit.core.errors import PerfkitError
    from perfkit.core.text_blocks import ReadLimits
    from perfkit.trace.readers.trace_reader import read_trace

LIMITS = ReadLimits(json_bytes=1 << 22, names=100)
COMPRESSIONS = (bytes, bytes, bytes, lambda data: zlib.compress(data, wbits=31))

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "/device:GPU:0"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10.125, "dur": 3.5,
     "args": {"External id": 5, "Input Dims": [[2, 3], []], "Input type": ["float", ""], "Sequence number": 4}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1682725898236567.125, "dur": 2,
     "args": {"correlation": "0x21", "device": 0, "stream": 7, "bytes": 256, "Collective name": "allreduce"}},
    {"ph": "s", "id": 33, "cat": "ac2g", "pid": 1, "tid": 1, "ts": 11},
    {"ph": "B", "name": "range", "pid": 1, "tid": 1, "ts": 1},
    {"ph": "E", "pid": 1, "tid": 1, "ts": 9},
    {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 11.5, "args": {"Addr": 77, "Bytes": -8}},
]  # fmt: skip
PACKETS: list[list[tuple[int, Value]]] = [
    [(6, [(1, [(1, 6), (2, 50)]), (1, [(1, 64), (2, 0), (3, 1)])]), (10, 1)],
    [(60, [(1, 7), (4, [(1, 11), (2, 12), (5, "worker")])])],
    [(10, 1), (13, 1), (12, [(2, [(1, 1), (2, "aten::mm")]), (24, [(1, 1), (2, "Kernel"), (4, 2)])])],
    [(8, 60), (10, 1), (11, [(9, 1), (10, 1), (11, 7), (4, [(10, "Input Dims"), (12, [(12, [(4, 3)])])])])],
    [(8, 70), (10, 1), (11, [(9, 2), (11, 7)])],
    [(8, 65), (10, 1), (53, [(2, 9), (11, 0), (13, 9), (14, 1), (6, [(1, "correlation"), (2, "41")])])],
]
XPLANE: list[tuple[int, Value]] = [
    (1, 1), (2, "/device:GPU:0"),
    (3, [(1, 7), (2, "Stream #7"), (3, 90), (4, [(1, 1), (2, 5000), (3, 9000), (4, [(1, 1), (3, 41)]),
                                                  (4, [(1, 2), (5, "regs:8 grid:8,1,1 block:1,1,1")])])]),
    (4, [(1, 1), (2, [(1, 1), (2, "gemm"), (5, [(1, 3), (3, 77)])])]),
    *((5, [(1, key), (2, [(2, name)])]) for key, name in enumerate(("correlation_id", "kernel_details", "flops"), 1)),
    (6, [(1, 3), (2, 1.5)]),
]  # fmt: skip
ROCPROF = {
    "metadata": {"pid": 3},
    "agents": [{"id": {"handle": 5}, "type": 2, "logical_node_type_id": 0, "name": "gfx942"}],
    "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel"]}],
                "marker_api": [{"key": 9, "value": "aten::mm, seq = 3, sizes = [[2]]"}]},
    "kernel_symbols": [{"kernel_id": 4, "formatted_kernel_name": "gemm"}],
    "buffer_records": {
        "kernel_dispatch": [{"start_timestamp": 8, "end_timestamp": 9, "correlation_id": {"internal": 2},
                             "dispatch_info": {"agent_id": {"handle": 5}, "kernel_id": 4, "grid_size": {"x": 9}}}],
        "memory_copy": [{"start_timestamp": 1, "end_timestamp": 2, "dst_agent_id": {"handle": 5}, "bytes": 64}],
        "hip_api": [{"start_timestamp": 3, "end_timestamp": 4, "correlation_id": {"internal": 2}, "thread_id": 6}],
        "marker_api": [{"start_timestamp": 3, "end_timestamp": 9, "correlation_id": {"internal": 9}}],
    },
}  # fmt: skip
SEEDS = (
    json.dumps(EVENTS).encode(),
    json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "deviceProperties": [{"id": 0, "name": "H100"}]}).encode(),
    encode_trace(PACKETS),
    encode([(1, XPLANE), (1, [(2, "/host:CPU")])]),
    json.dumps({"rocprofiler-sdk-tool": [ROCPROF]}).encode(),
)


def read_bytes(data: bytes) -> None:
    """The fuzzer's target: the first byte chooses the compression."""
    path = folder / "rank0"
    path.write_bytes(COMPRESSIONS[data[0] % len(COMPRESSIONS)](data[1:]) if data else b"")
    refusal = ""
    try:
        trace = read_trace(path, limits=LIMITS)
    except PerfkitError as error:
        refusal = str(error)
    if refusal:
        assert str(path) in refusal, refusal
        assert "\n" not in refusal, refusal
    else:
        assert (trace.end_ns >= trace.start_ns).all()
        assert (trace.start_ns[1:] >= trace.start_ns[:-1]).all()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as seeds, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index, seed in enumerate(SEEDS):
            (Path(seeds) / str(index)).write_bytes(b"\0" + seed)
        atheris.Setup(
            [*sys.argv, *([] if any(not each.startswith("-") for each in sys.argv[1:]) else [seeds])], read_bytes
        )
        atheris.Fuzz()
