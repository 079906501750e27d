"""The analysis of many traces in parts, by jobs that share a folder only, and the merging of these parts.

A part is every n-th file. It leaves summaries of its ranks (`summary_file`) and, last, an index that names these.
"""

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from perfkit.analysis.model.trace_analysis import MOST_FULL, TraceAnalysis
from perfkit.analysis.parallel import engines
from perfkit.analysis.pipeline.file_analysis import DEFAULT_LIMITS, RankSummary, TraceJob
from perfkit.analysis.pipeline.many_traces import SummaryCollector, analyze_chosen
from perfkit.analysis.pipeline.summary_file import read_summaries, write_summaries
from perfkit.analysis.pipeline.trace_analysis import (
    Progress,
    analyze_all,
    build_analysis,
    build_jobs,
    check_device,
    make_absolute,
    summarize_all,
)
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Struct
from perfkit.core.text_blocks import ReadLimits
from perfkit.core.urls import fetch_folder, is_url, send_folder
from perfkit.store.summary import compute_digest
from perfkit.trace.readers.trace_sources import Named, expand_sources

PART_VERSION = 1

# Ranks of a file: their collectives are in memory at once.
_RANKS_PER_FILE = 64
_INDEX = re.compile(r"part-(\d+)-of-(\d+)\.json")


class Part(NamedTuple):
    """The part `number`, from 1, of `of`."""

    number: int
    of: int

    @property
    def name(self) -> str:
        return f"part-{self.number}-of-{self.of}"


class _FailedSource(Struct):
    """A file that could not be read."""

    source: str
    number: int
    message: str
    error_id: str


class _PartIndex(Struct):
    """A finished part: its files of summaries, and what all parts must have in common."""

    schema_version: int = PART_VERSION
    sources: int
    digest: str
    files: tuple[str, ...]
    failed: tuple[_FailedSource, ...]
    device: str | None
    captures: tuple[str, ...]
    what_ifs: tuple[str, ...]
    max_bytes: int | None
    time_limit_s: float | None

    @property
    def shared(self) -> tuple[object, ...]:
        """What is equal in all parts of a job."""
        options = (self.device, self.captures, self.what_ifs, self.max_bytes, self.time_limit_s)
        return (self.sources, self.digest, *options)

    @property
    def job(self) -> TraceJob:
        """The options of the part."""
        seconds = math.inf if self.time_limit_s is None else self.time_limit_s
        limits = ReadLimits(json_bytes=self.max_bytes, seconds=seconds)
        return TraceJob("", self.device, limits=limits, captures=self.captures, what_ifs=self.what_ifs)


def write_part(
    traces: Named,
    part: Part,
    into: str,
    *,
    device: str | None = None,
    capture: Named = (),
    what_ifs: Sequence[str] = (),
    engine: str = engines.PROCESSES,
    jobs: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> int:
    """Summarize a part of the traces into the folder or fsspec URL `into`; returns the number of ranks summarized.

    All parts are written into one folder, and see the same files at the same paths. For the options see
    `analyze_traces`; those of traces are kept for `merge_parts`.
    """
    for text in what_ifs:
        parse_what_if(text)
    if device is not None:
        check_device(device)
    sources = tuple(map(make_absolute, expand_sources(traces)))
    captures = tuple(map(make_absolute, expand_sources(capture))) if capture else ()
    if part.of > len(sources):
        raise UsageError(f"{len(sources)} traces cannot be analyzed in {part.of} parts; name at most {len(sources)}")
    like = TraceJob("", device, limits=limits, captures=captures, what_ifs=tuple(what_ifs))
    work = build_jobs(sources, like, engine=engine, jobs=jobs)[part.number - 1 :: part.of]
    with _open_output(into, f"{part.name}.json") as folder:
        files: list[str] = []
        failed: list[_FailedSource] = []
        kept: list[tuple[str, int, RankSummary]] = []

        def write_kept() -> None:
            files.append(f"{part.name}-{len(files) + 1}.parquet")
            write_summaries(folder / files[-1], kept)
            kept.clear()

        for job, result in summarize_all(work, engine=engine, jobs=jobs, progress=progress):
            if isinstance(result, PerfkitError):
                failed.append(
                    _FailedSource(source=job.source, number=job.number, message=str(result), error_id=result.id)
                )
                continue
            kept.append((job.source, job.number, result))
            if len(kept) == _RANKS_PER_FILE:
                write_kept()
        if kept:
            write_kept()
        index = _PartIndex(
            sources=len(sources),
            digest=compute_digest(sources),
            files=tuple(files),
            failed=tuple(failed),
            device=device,
            captures=captures,
            what_ifs=tuple(what_ifs),
            max_bytes=limits.json_bytes,
            time_limit_s=None if math.isinf(limits.seconds) else limits.seconds,
        )
        write_json(folder / f"{part.name}.json", index)
    return len(work) - len(failed)


def merge_parts(
    parts: str,
    *,
    engine: str = engines.PROCESSES,
    jobs: int | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> TraceAnalysis:
    """Merge the parts in a folder or at an fsspec URL into the result that their traces give in one analysis.

    The traces of a few ranks are read again. A missing part, or parts of different traces or options, are a
    `UsageError`; a damaged file is a `RunFormatError`.
    """
    with _open_input(parts) as folder:
        indexes = _read_indexes(folder, parts)
        summaries = SummaryCollector()
        sources: dict[int, str] = {}
        for index in indexes:
            for failure in index.failed:
                sources[failure.number] = failure.source
                summaries.add(failure.source, PerfkitError(failure.message, id=failure.error_id))
            for name in index.files:
                for source, number, summary in read_summaries(folder / name):
                    sources[number] = source
                    summaries.add(source, summary)
    like = indexes[0].job
    work = build_jobs([sources[number] for number in sorted(sources)], like, engine=engine, jobs=jobs)
    if len(work) > MOST_FULL:
        full = analyze_chosen(summaries, work, engine=engine, jobs=jobs)
    else:
        full = analyze_all(work, engine=engine, jobs=jobs, progress=progress)
    return build_analysis(full, (), like, command)


def _read_indexes(folder: Path, name: str) -> list[_PartIndex]:
    """The indexes of all parts, in their order."""
    found = [(path, match) for path in sorted(folder.iterdir()) if (match := _INDEX.fullmatch(path.name))]
    counts = sorted({int(match[2]) for _, match in found})
    if not counts:
        raise UsageError(f"{name}: no finished part of `perfkit analyze --part`; name the folder of its --into")
    if len(counts) > 1:
        raise UsageError(f"{name} has parts of {' and of '.join(map(str, counts))}; remove those of one of them")
    numbers = {int(match[1]): path for path, match in found}
    missing = [f"{number}/{counts[0]}" for number in range(1, counts[0] + 1) if number not in numbers]
    if missing:
        raise UsageError(f"{name} lacks {len(missing)} of {counts[0]} parts; run `--part {missing[0]}` first")
    indexes = [read_json(numbers[number], _PartIndex, remedy="analyze the part again") for number in sorted(numbers)]
    different = [number for number, index in enumerate(indexes, 1) if index.shared != indexes[0].shared]
    if different:
        raise UsageError(f"{name}: part {different[0]} has other traces or options than part 1; analyze it again")
    return indexes


@contextmanager
def _open_output(name: str, last: str) -> Iterator[Path]:
    """A folder whose files are at `name` afterwards, that called `last` not before the others."""
    if not is_url(name):
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / last).unlink(missing_ok=True)  # of an earlier run, whose files are replaced
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="perfkit-part-") as place:
        yield Path(place)
        send_folder(Path(place), name, {}, last)


@contextmanager
def _open_input(name: str) -> Iterator[Path]:
    if not is_url(name):
        if not Path(name).is_dir():
            raise UsageError(f"{name}: no such folder", id="usage.no_file")
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="perfkit-parts-") as place:
        fetch_folder(name, Path(place))
        yield Path(place)
