"""Writes a trace of torch's profiler anew as Nsight Systems' and rocprofv3's exports hold it, to compare reading speed.

    python benchmarks/write_formats.py TRACE --out FOLDER

`NAME.sqlite` and `NAME.rocprofv3.json.gz` have its kernels, copies and calls; its ops and Python functions are ranges
of NVTX and roctx.
"""

import argparse
import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fixtures.trace_formats import write_nsys, write_rocprofv3

_DIRECTIONS = ("HtoD", "DtoH", "DtoD")
_KINDS = {"cuda_driver": "cuda_runtime", "gpu_memset": "kernel"}


def simplify(source: Path, path: Path) -> Path:
    """Write what both formats hold: complete events whose numbers are whole, and one kind of calls."""
    with gzip.open(source) as file:
        about = json.load(file)
    events = []
    for event in about["traceEvents"]:
        if event.get("ph") != "X" or not isinstance(event.get("tid"), int) or "cat" not in event:
            continue
        event["cat"] = _KINDS.get(event["cat"], event["cat"])
        if event["cat"] == "gpu_memcpy":  # the monitor of torch 2.14 does not tell directions
            direction = next((each for each in _DIRECTIONS if each in event["name"]), _DIRECTIONS[0])
            event["name"] = f"Memcpy {direction}"
        if event["cat"] in ("gpu_user_annotation", "cuda_sync", "overhead"):
            continue
        events.append(event)
    path.write_text(json.dumps(about | {"traceEvents": events}))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.trace.name.removesuffix(".json.gz")
    with TemporaryDirectory() as folder:
        plain = simplify(options.trace, Path(folder) / "plain.json")
        write_nsys(plain, options.out / f"{name}.sqlite")
        written = write_rocprofv3(plain, Path(folder) / "rocprof.json")
        with gzip.open(options.out / f"{name}.rocprofv3.json.gz", "wb", compresslevel=3) as out:
            out.write(written.read_bytes())


if __name__ == "__main__":
    main()
