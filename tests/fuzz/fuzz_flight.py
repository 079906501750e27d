"""Feed the reader of flight recorders with mutated bytes: it may refuse a file in one line, and runs nothing.

    python tests/fuzz/fuzz_flight.py -runs=20000

The options are libFuzzer's. A folder given as an argument is the corpus; without one a few small files are the seeds.
"""

import json
import pickle
import sys
import tempfile
import zlib
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["perfkit.flight", "perfkit.flight.flight_dumps", "perfkit.trace.readers.plain_pickle"]
):
    from perfkit.core.errors import PerfkitError
    from perfkit.flight.flight_dumps import is_dump_file, read_dump
    from perfkit.flight.match import find_mismatches

PACKED = (bytes, bytes, bytes, lambda data: zlib.compress(data, wbits=31))

FRAMES = [{"filename": "site-packages/torch/distributed/c10d_logger.py", "line": 3, "name": "wrapper"}]
ENTRY = {
    "frames": FRAMES, "record_id": 1, "process_group": ("0", "default_pg"), "collective_seq_id": 1, "p2p_seq_id": 0,
    "profiling_name": "nccl:all_reduce", "input_sizes": [[3, 4]], "input_dtypes": ["Float"], "output_sizes": [[3, 4]],
    "output_dtypes": ["Float"], "state": "started", "retired": False, "is_p2p": False, "time_created_ns": 9,
}  # fmt: skip
SEND = {**ENTRY, "profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 1, "record_id": 2}
CONFIG = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
DUMP = {"version": "2.10", "pg_config": CONFIG, "pg_status": {}, "entries": [ENTRY, SEND]}
SEEDS = (
    *(pickle.dumps(DUMP, protocol) for protocol in (2, 4)),
    json.dumps(DUMP).encode(),
    json.dumps({**DUMP, "entries": [SEND]}, sort_keys=True).encode(),
    b"\x80\x02cos\nsystem\n(U\x09touch ranU\x09pg_configtR.",
)


def read_bytes(data: bytes) -> None:
    """The fuzzer's target: the first byte chooses whether the file is packed."""
    path = folder / "dump_0"
    path.write_bytes(PACKED[data[0] % len(PACKED)](data[1:]) if data else b"")
    is_dump_file(path)
    refusal = ""
    try:
        record = read_dump(str(path))
    except PerfkitError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith(str(path)), refusal
        assert "\n" not in refusal, refusal
    else:
        find_mismatches({0: record, 1: record})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as seeds, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index, seed in enumerate(SEEDS):
            (Path(seeds) / str(index)).write_bytes(b"\0" + seed)
        own = any(not each.startswith("-") for each in sys.argv[1:])
        atheris.Setup([*sys.argv, *([] if own else [seeds])], read_bytes)
        atheris.Fuzz()
