"""Summaries of ranks on disk: a Parquet file with a row per collective, and the ranks' figures as its metadata."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from perfkit.analysis.pipeline.file_analysis import RankSummary
from perfkit.analysis.ranks.arrivals import CollectiveKind
from perfkit.analysis.ranks.fleet_member import FleetMember
from perfkit.analysis.ranks.matching import build_arrivals, build_collective_rows
from perfkit.analysis.ranks.slots import CollectiveRows
from perfkit.analysis.trace.collective_rows import MessageKey
from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS, write_bytes
from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit.store.parquet import DamagedParquetError, encode_arrays, read_arrays, read_metadata

_KEY = "perfkit"


class SourceSummary(Struct):
    """The summary of the file `source`, the one of `number` among all; see `RankSummary`."""

    source: str
    number: int
    member: FleetMember
    device_name: str
    warning: Note | None
    fullness: tuple[bool, int]
    is_truncated: bool


class _FileMetadata(Struct):
    """The ranks of a file in the order of their rows, and the tables that these index."""

    ranks: tuple[SourceSummary, ...]
    kinds: tuple[CollectiveKind, ...]
    messages: tuple[MessageKey, ...]


def write_summaries(path: Path, summaries: Sequence[tuple[str, int, RankSummary]]) -> None:
    """Write the summaries of files, each with its source and number. `read_summaries` gives back the same."""
    kinds: dict[CollectiveKind, int] = {}
    messages: dict[MessageKey, int] = {}
    rows = [build_collective_rows(summary.arrivals, kinds, messages) for _, _, summary in summaries]
    columns = {
        name: np.concatenate([np.asarray(column, np.int64) for column in parts])
        for name, parts in zip(CollectiveRows._fields, zip(*rows, strict=True), strict=True)
    }
    metadata = _FileMetadata(
        ranks=tuple(
            SourceSummary(
                source=source,
                number=number,
                member=summary.member,
                device_name=summary.device_name,
                warning=summary.warning,
                fullness=summary.fullness,
                is_truncated=summary.is_truncated,
            )
            for source, number, summary in summaries
        ),
        kinds=tuple(kinds),
        messages=tuple(messages),
    )
    write_bytes(path, encode_arrays(columns, {_KEY: msgspec.json.encode(metadata).decode()}))


def read_summaries(path: Path) -> Iterator[tuple[str, int, RankSummary]]:
    """The summaries of a file, each with its source and number. `RunFormatError` for a damaged or foreign file."""
    try:
        text = read_metadata(path, _KEY)
        arrays = read_arrays(path, CollectiveRows._fields)
        metadata = msgspec.json.decode(text or b"", type=_FileMetadata)
    except (DamagedParquetError, *JSON_ERRORS) as error:
        raise RunFormatError(f"{path}: not a summary of ranks: {error}; analyze its part again") from None
    if sum(rank.member.length for rank in metadata.ranks) != len(arrays["kind"]):
        raise RunFormatError(f"{path}: its ranks have other numbers of collectives than it; analyze its part again")
    first = 0
    for rank in metadata.ranks:
        last = first + rank.member.length
        rows = CollectiveRows(*(np.asarray(arrays[name][first:last], np.int64) for name in CollectiveRows._fields))
        arrivals = build_arrivals(rows, metadata.kinds, metadata.messages)
        first = last
        yield (
            rank.source,
            rank.number,
            RankSummary(
                member=rank.member,
                arrivals=arrivals,
                device_name=rank.device_name,
                warning=rank.warning,
                fullness=rank.fullness,
                is_truncated=rank.is_truncated,
                json_bytes=0,
                seconds=0.0,
            ),
        )
