"""Launch geometry of kernels as numbers: blocks and threads, and the registers and shared memory of each.

CUPTI's records have all of them; Kineto adds blocks per SM and an estimate of the occupancy, of whole percent, from
them and the device (libkineto/src/CudaDeviceProperties.cpp of pytorch/kineto).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

_MOST_AXES = 3


class KernelGeometry(NamedTuple):
    """One launch geometry; None where it was not recorded.

    `blocks` of the grid with `threads` each. `registers` per thread. `shared_bytes` per block. `blocks_per_sm` and
    `occupancy` (a share) as Kineto computed them.
    """

    blocks: int | None
    threads: int | None
    shared_bytes: int | None
    registers: int | None
    blocks_per_sm: float | None
    occupancy: float | None


_UNKNOWN = KernelGeometry(None, None, None, None, None, None)


def parse_geometry(geometry: bytes) -> KernelGeometry:
    """Parse an entry of `Trace.geometries`."""
    members = _decode_members(geometry.split(b"\0"))
    if len(members) < len(_UNKNOWN):
        return _UNKNOWN
    grid, block, shared, registers, per_sm, percent = members[: len(_UNKNOWN)]
    estimate = _get_number(percent)
    return KernelGeometry(
        _multiply_axes(grid),
        _multiply_axes(block),
        _get_integer(shared),
        _get_integer(registers),
        _get_number(per_sm),
        None if estimate is None or estimate > 100 else estimate / 100,
    )


def _decode_members(texts: Sequence[bytes]) -> list[object]:
    """The value of each text, None for one that is empty or no JSON."""
    written = b",".join(text or b"null" for text in texts)
    try:
        members = msgspec.json.decode(b"[" + written + b"]", type=list[object])
    except msgspec.DecodeError:  # of one of them
        return [_decode_members([text])[0] for text in texts] if len(texts) > 1 else [None]
    return members if len(members) == len(texts) else []


def _multiply_axes(value: object) -> int | None:
    if not isinstance(value, Sequence) or not 1 <= len(value) <= _MOST_AXES:
        return None
    sizes = [size for size in map(_get_integer, value) if size]
    return math.prod(sizes) if len(sizes) == len(value) else None


def _get_integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _get_number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
