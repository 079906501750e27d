"""Reads a trace's metadata: its writer, devices and rank."""

from collections import Counter
from typing import Any

import msgspec

from perfkit.core.files import JSON_ERRORS
from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.readers.event_table.parse_numbers import parse_integer
from perfkit.trace.readers.event_table.trace_metadata import TraceMetadata
from perfkit.trace.readers.kineto.json_structure import analyze_structure
from perfkit.trace.readers.kineto.salvage_events import repair_text

_LONGEST_PROPERTY = 1000
# Sizes of a device, of `deviceProperties`.
_SIZES = (
    "numSms",
    "totalGlobalMem",
    "maxThreadsPerMultiprocessor",
    "regsPerMultiprocessor",
    "sharedMemPerMultiprocessor",
    "computeMajor",
    "computeMinor",
)
NCCL_VERSION = "nccl_version"  # of `distributedInfo`
_KNOWN = ("traceEvents", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_trace_metadata(text: bytes) -> TraceMetadata:
    """Read the file's own members; `text` is the file with `null` instead of its events, perhaps cut off."""
    if not text:
        return TraceMetadata()
    members, complete = _split_members(text)
    distributed = _decode_value(members.get("distributedInfo"))
    place = distributed if isinstance(distributed, dict) else {}
    devices = _decode_value(members.get("deviceProperties"))
    return TraceMetadata(
        base_ns=max(0, parse_integer(_decode_value(members.get("baseTimeNanoseconds")))),
        devices=_map_devices(devices),
        rank=_parse_natural(place.get("rank")),
        world_size=_parse_natural(place.get("world_size")),
        group_sizes=_collect_group_sizes(place.get("pg_config")),
        job=_describe_job(place),
        properties=_collect_properties(members) | _describe_sizes(devices) | _read_backend_version(place),
        complete=complete,
    )


def _split_members(text: bytes) -> tuple[dict[str, msgspec.Raw], bool]:
    whole = _decode_members(text)
    if whole is not None:
        return whole, True
    repaired = repair_text(text, Counter())
    commas = analyze_structure(repaired, level=1).commas
    up_to_last = repaired[: int(commas[-1])] + b"}" if len(commas) else b"{}"
    return _decode_members(repaired) or _decode_members(up_to_last) or {}, False


def _decode_members(text: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return _MEMBERS.decode(text)
    except JSON_ERRORS:
        return None


def _decode_value(raw: msgspec.Raw | None) -> object:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except JSON_ERRORS:
        return None


def _parse_natural(value: object) -> int | None:
    number = parse_integer(value)
    return number if number >= 0 else None


def _collect_group_sizes(value: object) -> tuple[int, ...]:
    """The distinct numbers of ranks of process groups."""
    groups = [group for group in value if isinstance(group, dict)] if isinstance(value, list) else []
    sizes = {size for group in groups if (size := _parse_natural(group.get("pg_size"))) is not None}
    return tuple(sorted(sizes))


def _describe_job(place: dict[str, Any]) -> str:
    """What is equal for all ranks of a job: its world size and backend, and the group of all ranks."""
    size, groups = _parse_natural(place.get("world_size")), place.get("pg_config")
    if size is None:
        return ""
    of_all = [
        [group.get("pg_name"), group.get("ranks")]
        for group in (groups if isinstance(groups, list) else [])
        if isinstance(group, dict) and _parse_natural(group.get("pg_size")) == size
    ]
    return msgspec.json.encode([size, place.get("backend"), of_all[:1]]).decode()


def _read_backend_version(place: dict[str, Any]) -> dict[str, str]:
    """The version of NCCL, which may differ between the ranks of a job: as a member of the file."""
    version = place.get(NCCL_VERSION)
    return {NCCL_VERSION: escape_control_chars(version)} if isinstance(version, str) and version else {}


def _map_devices(value: object) -> dict[int, str]:
    entries = value if isinstance(value, list) else []
    named = ((_parse_natural(entry.get("id")), entry.get("name")) for entry in entries if isinstance(entry, dict))
    return {
        number: escape_control_chars(name) for number, name in named if number is not None and isinstance(name, str)
    }


def _describe_sizes(value: object) -> dict[str, str]:
    """Describe device sizes, which distinguish a part of a GPU from the whole and bound the occupancy of its SMs; by
    number only where they differ."""
    entries = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    stated = {}
    for member in _SIZES:
        sizes = {_parse_natural(entry.get("id")): _parse_natural(entry.get(member)) for entry in entries}
        same = len(set(sizes.values())) == 1
        for number, size in sizes.items():
            if number is not None and size is not None:
                stated[member if same else f"device {number} {member}"] = str(size)
    return stated


def _collect_properties(members: dict[str, msgspec.Raw]) -> dict[str, str]:
    """The members that are text, numbers or flags."""
    properties = {}
    for name, raw in members.items():
        if name in _KNOWN or len(bytes(raw)) > _LONGEST_PROPERTY:
            continue
        value = _decode_value(raw)
        if isinstance(value, str | int | float):
            properties[escape_control_chars(name)] = escape_control_chars(str(value))
    return properties
