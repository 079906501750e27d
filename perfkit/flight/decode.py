"""The dumps of torch's flight recorder, format 2 (torch 2.4 and later), from pickle or JSON: the same keys in both.

The format is that of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; its JSON has no stacks.
"""

import math
import re
from collections import defaultdict
from functools import lru_cache
from typing import Annotated

import msgspec

from perfkit.core.errors import RunFormatError
from perfkit.flight.flight_record import (
    DEFAULT_GROUP,
    FlightRecord,
    ProcessGroup,
    RecordedCollective,
    StackFrame,
    Tensors,
)

EXPECTED = "a dump of torch's flight recorder (pickle, or JSON of torch._C._distributed_c10d._dump_nccl_trace_json)"

# Their entries have no device events: a retired entry has ended.
_WITHOUT_EVENTS = ("gloo", "c10d")
_PEERS = re.compile(r"(?P<op>\w+) (?P<own>\d+)(?P<arrow>->|<-)(?P<other>\d+)$")
_NUMBER = re.compile(r"\d+")
_MOST_ELEMENTS = 1 << 50
_STACKS = 4096  # that are kept to be shared
_GROUPS = 16  # lists of ranks, likewise

_Line = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Size = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _DumpFrame(msgspec.Struct, frozen=True):
    name: str
    filename: str
    line: _Line


class _DumpEntry(msgspec.Struct):
    process_group: tuple[str, str]
    profiling_name: str
    state: str
    record_id: _Size
    collective_seq_id: _Size
    p2p_seq_id: _Size = 0
    is_p2p: bool = False
    retired: bool = False
    input_sizes: tuple[tuple[_Size, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_sizes: tuple[tuple[_Size, ...], ...] = ()
    output_dtypes: tuple[str, ...] = ()
    frames: tuple[_DumpFrame, ...] = ()


class _GroupConfig(msgspec.Struct):
    desc: str = ""
    ranks: str | tuple[_Size, ...] = ""


class _Dump(msgspec.Struct):
    version: str
    entries: tuple[_DumpEntry, ...] = ()  # left out of JSON where there are none
    pg_config: dict[str, _GroupConfig] = {}


def decode_dump(dump: object, label: str) -> FlightRecord:
    """A dump that has been read into plain data. `RunFormatError` names a file, `label`, that holds something else."""
    if not isinstance(dump, dict) or not isinstance(dump.get("version"), str):
        raise RunFormatError(f"{label}: expected {EXPECTED}")
    version = str(dump["version"])
    if not re.fullmatch(r"2\.\d+", version):
        shown = ascii(version[:20])
        raise RunFormatError(f"{label}: a dump in format {shown} of torch's flight recorder; perfkit reads format 2")
    try:
        read = msgspec.convert(dump, _Dump)
    except msgspec.ValidationError as error:
        raise RunFormatError(f"{label}: a damaged dump of torch's flight recorder: {ascii(str(error))[1:-1]}") from None
    if any(math.prod(shape) >= _MOST_ELEMENTS for entry in read.entries for shape in _list_shapes(entry)):
        raise RunFormatError(f"{label}: a damaged dump of torch's flight recorder: a tensor larger than any memory")
    groups = {name: _build_group(name, config) for name, config in read.pg_config.items()}
    # Gloo keeps one entry without a name: of the default group, until another group replaces it with no ranks.
    members = groups.pop("").ranks if "" in groups else ()
    for entry in read.entries:
        name, description = entry.process_group
        ranks = members if description == DEFAULT_GROUP else ()
        groups.setdefault(name, ProcessGroup(name=name, description=description, ranks=ranks))
    calls = sorted((_build_collective(entry) for entry in read.entries), key=lambda call: call.number)
    return FlightRecord(version=version, groups=groups, collectives=_finish_coalesced(calls))


def _list_shapes(entry: _DumpEntry) -> tuple[tuple[int, ...], ...]:
    return entry.input_sizes + entry.output_sizes


def _build_group(name: str, config: _GroupConfig) -> ProcessGroup:
    ranks = config.ranks
    if isinstance(ranks, str):
        ranks = _parse_ranks(ranks)
    return ProcessGroup(name=name, description=config.desc, ranks=tuple(dict.fromkeys(ranks)))


@lru_cache(_GROUPS)
def _parse_ranks(ranks: str) -> tuple[int, ...]:
    """The ranks of a list as text, `[0, 1]`: every rank's dump has that of all ranks."""
    return tuple(int(number[:9]) for number in _NUMBER.findall(ranks))


def _build_collective(entry: _DumpEntry) -> RecordedCollective:
    backend, _, name = entry.profiling_name.rpartition(":")
    named = _PEERS.match(name)
    peers = None
    if named is not None:
        own, other = int(named["own"][:9]), int(named["other"][:9])
        peers = (own, other) if named["arrow"] == "->" else (other, own)
    return RecordedCollective(
        number=entry.record_id,
        group=entry.process_group[0],
        sequence=entry.p2p_seq_id if entry.is_p2p else entry.collective_seq_id,
        op=name if named is None else named["op"],
        backend=backend,
        inputs=Tensors(shapes=entry.input_sizes, dtypes=entry.input_dtypes),
        outputs=Tensors(shapes=entry.output_sizes, dtypes=entry.output_dtypes),
        state=entry.state,
        finished=entry.state == "completed" or (entry.retired and backend in _WITHOUT_EVENTS),
        p2p=entry.is_p2p,
        peers=peers,
        frames=_build_stack(entry.frames),
    )


@lru_cache(_STACKS)
def _build_stack(frames: tuple[_DumpFrame, ...]) -> tuple[StackFrame, ...]:
    """One for all calls from there, of all ranks: they run the same program."""
    return tuple(StackFrame(function=frame.name, file=frame.filename, line=frame.line) for frame in frames)


def _finish_coalesced(calls: list[RecordedCollective]) -> tuple[RecordedCollective, ...]:
    """Complete coalesced calls: those of one launch share a number, and only the last one, which represents all, has
    events."""
    ended: dict[tuple[str, bool, int], bool] = {}
    members: defaultdict[tuple[str, bool, int], int] = defaultdict(int)
    for call in calls:
        key = (call.group, call.p2p, call.sequence)
        members[key] += 1
        if call.op.endswith("coalesced"):
            ended[key] = call.finished
    return tuple(
        msgspec.structs.replace(call, finished=ended[key])
        if (key := (call.group, call.p2p, call.sequence)) in ended and members[key] > 1
        else call
        for call in calls
    )
