"""What a trace file states beside its events: who recorded it, on which devices, as which rank."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import msgspec

from perfkit.trace.reading.chunks import structure
from perfkit.trace.reading.kineto import REFUSALS
from perfkit.trace.reading.numbers import integer
from perfkit.trace.reading.tolerant import repair_text
from perfkit.visible import visible

_LONGEST_PROPERTY = 1000
_KNOWN = ("traceEvents", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RANK = re.compile(r"(?:rank|worker)[-_ .]?(\d{1,6})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Surroundings:
    """See the fields of the same names of `Trace`. `complete`: whether all of the text could be read."""

    base_ns: int = 0
    devices: dict[int, str] = field(default_factory=dict)
    rank: int | None = None
    world_size: int | None = None
    group_sizes: tuple[int, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    complete: bool = True


def read_surroundings(text: bytes) -> Surroundings:
    """Read the file's own members; `text` is the file with `null` instead of its events, perhaps cut off."""
    if not text:
        return Surroundings()
    members, complete = _members(text)
    distributed = _decoded(members.get("distributedInfo"))
    place = distributed if isinstance(distributed, dict) else {}
    devices = _decoded(members.get("deviceProperties"))
    return Surroundings(
        base_ns=max(0, integer(_decoded(members.get("baseTimeNanoseconds")))),
        devices=_devices(devices),
        rank=_natural(place.get("rank")),
        world_size=_natural(place.get("world_size")),
        group_sizes=_group_sizes(place.get("pg_config")),
        properties=_properties(members) | _sizes(devices),
        complete=complete,
    )


def rank_in_name(source: str) -> int | None:
    """The rank that a file's name, or its folder's, tells: `rank3.json`, `rank_12/trace.json.gz`, `worker-4...`."""
    for part in reversed(PurePosixPath(source.replace("\\", "/")).parts[-2:]):
        ranks = _RANK.findall(part)
        if ranks:
            return int(ranks[-1])
    return None


def _members(text: bytes) -> tuple[dict[str, msgspec.Raw], bool]:
    whole = _decoded_members(text)
    if whole is not None:
        return whole, True
    repaired = repair_text(text, Counter())
    commas = structure(repaired, level=1).commas
    up_to_last = repaired[: int(commas[-1])] + b"}" if len(commas) else b"{}"
    return _decoded_members(repaired) or _decoded_members(up_to_last) or {}, False


def _decoded_members(text: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return _MEMBERS.decode(text)
    except REFUSALS:
        return None


def _decoded(raw: msgspec.Raw | None) -> object:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except REFUSALS:
        return None


def _natural(value: object) -> int | None:
    number = integer(value)
    return number if number >= 0 else None


def _group_sizes(value: object) -> tuple[int, ...]:
    """How many ranks the process groups have, each number once."""
    groups = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    sizes = {size for each in groups if (size := _natural(each.get("pg_size"))) is not None}
    return tuple(sorted(sizes))


def _devices(value: object) -> dict[int, str]:
    entries = value if isinstance(value, list) else []
    named = ((_natural(entry.get("id")), entry.get("name")) for entry in entries if isinstance(entry, dict))
    return {number: visible(name) for number, name in named if number is not None and isinstance(name, str)}


def _sizes(value: object) -> dict[str, str]:
    """How large the devices are, which tells a part of a GPU from the whole; by number only where they differ."""
    entries = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    stated = {}
    for member in ("numSms", "totalGlobalMem"):
        sizes = {_natural(entry.get("id")): _natural(entry.get(member)) for entry in entries}
        same = len(set(sizes.values())) == 1
        for number, size in sizes.items():
            if number is not None and size is not None:
                stated[member if same else f"device {number} {member}"] = str(size)
    return stated


def _properties(members: dict[str, msgspec.Raw]) -> dict[str, str]:
    """The members that are text, numbers or flags."""
    properties = {}
    for name, raw in members.items():
        if name in _KNOWN or len(bytes(raw)) > _LONGEST_PROPERTY:
            continue
        value = _decoded(raw)
        if isinstance(value, str | int | float):
            properties[visible(name)] = visible(str(value))
    return properties
