"""Finds and reads dumps of torch's flight recorder, with their ranks, without running code."""

import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from perfkit.core.address_space import limit_address_space
from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.core.files import JSON_ERRORS
from perfkit.core.text_blocks import ReadLimits, TextBlocks
from perfkit.core.urls import is_url
from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_record import FlightRecord
from perfkit.store.layout import RECORD_FILE, SPEC_FILE, SUITE_FILE, TRACE_FILE, WATCHDOG_DUMP, find_flight_file
from perfkit.trace.readers.plain_pickle import load_plain_pickle
from perfkit.trace.readers.trace_sources import is_pattern, is_trace_file, make_natural_key, open_source

WHAT = "dump of torch's flight recorder"

_SNIFFED = 1 << 16
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_PICKLED = re.compile(rb"pg_config|collective_seq_id")
_JSON = re.compile(rb'"(collective_seq_id|pg_status)"\s*:')
# Limit on nested shared lists of a malicious pickle, which expand exponentially.
_MOST_BYTES = 1 << 30
_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)\D*$")
_ENDS = (".gz", ".zst", ".json", ".pickle", ".pkl")


def select_dumps(named: Iterable[str]) -> tuple[str, ...]:
    """The files that are named, if some of them are dumps and none is a trace; of folders and patterns their dumps.

    What else is named as a file is among them, for what reads it to say what is wrong with it. Nothing where anything
    else is named, or where a folder or pattern holds traces, too. `UsageError` where dumps are of several runs.
    """
    found: list[Path] = []
    unread: list[Path] = []
    for name in named:
        path = Path(name).expanduser()
        files = [] if is_url(name) else _list_files(path)
        dumps = {file for file in files if is_dump_file(file)}
        if any(_is_trace(file) for file in files if file not in dumps) or not (dumps or path.is_file()):
            return ()
        (found if dumps else unread).extend(dumps or files)
    if not found:
        return ()
    _refuse_several_runs(found)
    return tuple(sorted({str(file) for file in (*found, *unread)}, key=make_natural_key))


def _list_files(path: Path) -> list[Path]:
    """List a file, a pattern's matches, or a folder's files; its subfolders' where it has neither dump nor trace."""
    if path.is_file():
        return [path]
    if is_pattern(str(path)):
        return [file for file in map(Path, glob.glob(str(path), recursive=True)) if file.is_file()]  # noqa: PTH207
    if not path.is_dir() or (path / SUITE_FILE).is_file():
        return []
    here = [file for file in path.iterdir() if file.is_file()]
    if not (path / SPEC_FILE).is_file() and any(is_dump_file(file) or is_trace_file(file) for file in here):
        return here
    return [file for file in path.rglob("*") if file.is_file() and not _is_replaced_dump(file)]


def _is_replaced_dump(file: Path) -> bool:
    """True for a dump of NCCL's watchdog in a run whose rank has left its own."""
    rank = file.name.removeprefix(WATCHDOG_DUMP)
    return rank != file.name and rank.isdecimal() and find_flight_file(file.parent, int(rank)) != file


def _is_trace(file: Path) -> bool:
    """True for a trace; empty files are not, nor a bench rank's other files."""
    return file.stat().st_size > 0 and is_trace_file(file) and not _is_bench_file(file)


def _refuse_several_runs(dumps: Iterable[Path]) -> None:
    runs = {folder for file in dumps for folder in file.parents[:2] if (folder / SPEC_FILE).is_file()}
    if len(runs) > 1:
        raise UsageError(f"these dumps come from {len(runs)} runs: name one run, such as {min(runs, key=str)}")


def _is_bench_file(file: Path) -> bool:
    """True for a bench rank's other files next to its trace, which may be too long to distinguish from one."""
    return file.name != TRACE_FILE and (file.parent / RECORD_FILE).is_file()


def is_dump_file(path: Path) -> bool:
    """True for a dump, by the beginning of its text."""
    try:
        head = _read_head(str(path))
    except PerfkitError:
        return False
    if _PICKLE.match(head):
        return bool(_PICKLED.search(head))
    return head.lstrip()[:1] == b"{" and bool(_JSON.search(head))


def _read_head(label: str) -> bytes:
    file, file_bytes = open_source(label)
    with file:
        return TextBlocks(file, label, file_bytes, ReadLimits()).peek()[:_SNIFFED]


def parse_rank(file: str) -> int:
    """The rank by name (`nccl_trace_rank_3`, `dump3.json`), else by folder (`rank3/`); else a `UsageError`."""
    path = Path(file)
    name = path.name
    while name.endswith(_ENDS):
        name = name.rpartition(".")[0]
    match = _RANK.search(name) or _LAST_NUMBER.search(name) or _RANK.fullmatch(path.parent.name)
    if match is None:
        raise UsageError(f"{file}: no rank in its name: name it after its rank, as in dump_rank_3")
    return int(match[1][:9])


def map_ranks(files: Sequence[str]) -> dict[int, str]:
    """The file of each rank. A `UsageError` for two of one rank."""
    ranks: dict[int, str] = {}
    for file in files:
        rank = parse_rank(file)
        if rank in ranks:
            raise UsageError(f"{ranks[rank]} and {file} both claim rank {rank} by name: pass only one of them")
        ranks[rank] = file
    return dict(sorted(ranks.items()))


def read_dump(file: str) -> FlightRecord:
    """A dump as pickle or JSON, plain or packed. `RunFormatError` names a file that is damaged or something else."""
    if _PICKLE.match(_read_head(file)):
        if Path(file).suffix == ".zst":
            raise RunFormatError(f"{file}: a {WHAT} packed with zstd: unpack it first (zstd -d)")
        plain = load_plain_pickle(file, WHAT)
    else:
        opened, file_bytes = open_source(file)
        with opened:
            text = TextBlocks(opened, file, file_bytes, ReadLimits())
            data = b"".join(text)
        if text.damage:
            raise RunFormatError(f"{file}: {text.damage}; copy or record it again")
        try:
            plain = msgspec.json.decode(data)
        except JSON_ERRORS as error:
            raise RunFormatError(f"{file}: not a {WHAT} as JSON: {error}") from None
    try:
        with limit_address_space(_MOST_BYTES):
            return decode_dump(plain, file)
    except (MemoryError, RecursionError):
        raise RunFormatError(f"{file}: needs more memory than any {WHAT}: damaged or malicious") from None
