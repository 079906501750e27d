"""Details that XLA's profilers write as text: ops of TensorFlow, the geometry of kernels, the sizes of copies.

`regs:32 static_shared:0 grid:8,1,1 block:128,1,1 ...`: `ToXStat` of xla/backends/profiler/gpu/cupti_buffer_events.h and
rocm_collector.h, which writes `group_mem` instead of shared memory and no registers; copies and fills as in
cupti_collector.cc.
"""

import re
from functools import lru_cache

from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.parse_numbers import parse_size

_MEMBER = re.compile(r"(\w+):([\d.,]+)")
_AXES = re.compile(r"\d{1,10},\d{1,10},\d{1,10}")


def is_tensorflow_op(name: str, long_name: str) -> bool:
    """True if an event is an op of TensorFlow's: it is shown by its type, the end of `scope/name:Type`."""
    return bool(name) and long_name.endswith(f":{name}") and " " not in long_name


@lru_cache(maxsize=1 << 12)  # kernels are launched alike again and again
def format_geometry(details: str) -> bytes:
    """Grid, block, shared memory and registers of a kernel as a row of `Trace.geometries`; empty without a grid."""
    members: dict[str, str] = dict(_MEMBER.findall(details))
    grid, block = (members.get(name, "") for name in ("grid", "block"))
    if not (_AXES.fullmatch(grid) and _AXES.fullmatch(block)):
        return b""
    parts = [members[name] for name in ("static_shared", "dynamic_shared", "group_mem") if name in members]
    shared = str(sum(int(part) for part in parts)) if parts and all(map(str.isdecimal, parts)) else ""
    registers = members.get("regs", "") if members.get("regs", "").isdecimal() else ""
    return b"\0".join((f"[{grid}]".encode(), f"[{block}]".encode(), shared.encode(), registers.encode(), b"", b""))


def parse_moved_bytes(details: str) -> int:
    """The size of a copy or a fill; NONE where it is not told."""
    members: dict[str, str] = dict(_MEMBER.findall(details))
    size = members.get("size") or members.get("num_bytes", "")
    return parse_size(int(size)) if size.isdecimal() and len(size) < 19 else NONE
