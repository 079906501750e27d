"""Feed the readers of memory recordings with mutated bytes: they may refuse a file in one line, and run nothing.

    python tests/fuzz/fuzz_memory.py -runs=20000

The options are libFuzzer's. A folder given as an argument is the corpus; without one a few small files are the seeds.
"""

import json
import pickle
import pickletools
import sys
import tempfile
import zlib
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["perfkit.trace.memory"]):
    from perfkit.core.errors import PerfkitError
    from perfkit.trace.memory.read_memory import read_memory

PACKED = (bytes, bytes, bytes, lambda data: zlib.compress(data, wbits=31))

FRAMES = [{"filename": "site-packages/torch/nn/functional.py", "line": 3, "name": "linear"}]
ENTRY = {"addr": 1 << 40, "size": 3 << 20, "stream": 0, "time_us": 9, "frames": FRAMES, "pool_id": (0, 0)}
BLOCK = {"size": 1 << 21, "requested_size": 9, "address": 1 << 40, "state": "active_allocated", "frames": FRAMES}
SNAPSHOT = {
    "segments": [
        {"device": 0, "address": 1 << 40, "total_size": 20 << 20, "segment_pool_id": (0, 1), "blocks": [BLOCK]}
    ],
    "device_traces": [
        [
            {"action": action, **ENTRY}
            for action in ("segment_alloc", "alloc", "free_requested", "free_completed", "oom")
        ]
    ],
    "external_annotations": [{"name": "ProfilerStep#1", "stage": "START", "time_us": 3, "device": 0}],
    "allocator_settings": {"max_split_size": 1 << 23, "roundup_power2_divisions": {"1": 4}},
}
SEEDS = (
    *(pickletools.optimize(pickle.dumps(SNAPSHOT, protocol)) for protocol in (0, 2, 4)),
    json.dumps(SNAPSHOT).encode(),
    json.dumps([[-1, 1, 5, 0], [3, 3, -5, 0], [3, 3, 5, 1], [4, 4, -5, 1]]).encode(),
    json.dumps([[1, 2], [[0, 5, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 2]]]).encode(),
    b"cos\nsystem\n(S'touch ran'\ntR.",
)


def read_bytes(data: bytes) -> None:
    """The fuzzer's target: the first byte chooses whether the file is packed."""
    path = folder / "file"
    path.write_bytes(PACKED[data[0] % len(PACKED)](data[1:]) if data else b"")
    refusal = ""
    try:
        file = read_memory(path)
    except PerfkitError as error:
        refusal = str(error)
    if refusal:
        assert str(path) in refusal, refusal
        assert "\n" not in refusal, refusal
    else:
        assert file.allocations


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as seeds, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index, seed in enumerate(SEEDS):
            (Path(seeds) / str(index)).write_bytes(b"\0" + seed)
        own = any(not each.startswith("-") for each in sys.argv[1:])
        atheris.Setup([*sys.argv, *([] if own else [seeds])], read_bytes)
        atheris.Fuzz()
