"""Analyzes inputs, recognized by content, and compares runs. Nothing is run or unpickled unsafely."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from perfkit.analysis.model.comparison import Comparison
from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.parallel import engines
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.analysis.pipeline.flight_analysis import analyze_flight
from perfkit.analysis.pipeline.memory_analysis import analyze_memory
from perfkit.analysis.pipeline.stored_results import read_result, read_suite_report
from perfkit.analysis.pipeline.suite_analysis import inspect_suite
from perfkit.analysis.pipeline.trace_analysis import Progress, analyze_traces
from perfkit.analysis.suite.select_variant import select_variant
from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.text_blocks import ReadLimits
from perfkit.core.texts.name_lists import list_first
from perfkit.core.texts.redact import redact_text
from perfkit.core.urls import is_url
from perfkit.flight.flight_dumps import select_dumps
from perfkit.store.layout import REPORT_JSON, SUITE_FILE
from perfkit.store.named_variant import split_variant
from perfkit.store.report_kinds import KIND_BY_MARKER, find_kind
from perfkit.store.suite_reader import read_suite
from perfkit.store.summary import REPORT_FILE
from perfkit.trace.memory.read_memory import is_memory_recording
from perfkit.trace.readers.trace_sources import (
    STANDARD_INPUT,
    Named,
    expand_sources,
    is_pattern,
    is_trace_file,
)

ACCEPTED = (
    "a trace (.json, .json.gz, .json.zst), a folder, pattern or URL of traces, a folder of perfkit bench, run or "
    "attach (FOLDER@VARIANT for one variant), a CUDA memory snapshot, a memory timeline, memory.parquet, flight "
    "recorder dumps of torch, or the folder of a report"
)
KINDS = ("trace", "memory", "flight", "suite")

_SHOWN = 5  # files listed of an unrecognized folder
_HEAD = 1 << 12


def analyze(source: Named, *, kind: str | None = None, **options: Any) -> Any:
    """Analyze a trace, a folder of ranks, a suite, a run, a recording of memory or a flight-recorder dump.

    The kind is recognized by content, and determines the result:

    - `Analysis`: a folder of `perfkit bench`, of `perfkit run` or of an attached loop. The folder of one of its
      variants or runs, and `FOLDER@VARIANT`, give that variant and its baseline alone.
    - `TraceAnalysis`: a trace, a folder of ranks, a pattern, a URL, or several of these.
    - `MemoryAnalysis`: a CUDA snapshot, a memory timeline, `memory.parquet`.
    - `FlightAnalysis`: dumps of torch's flight recorder: files or a folder.
    - the stored result of a folder that `perfkit analyze`, `memory`, `check`, `compare`, `plan`, `advise` or `attach`
      wrote.

    Args:
        source: what to analyze.
        kind: `trace`, `memory`, `flight` or `suite` overrides the recognized kind: `memory` analyzes the memory events
            of a trace.
        options: of traces: `against`, `device`, `counters`, `capture`, `what_if`, `engine`, `jobs`, `max_bytes`,
            `time_limit_s`, `progress`, as `perfkit analyze` takes them. Of dumps: `jobs`. Other kinds take none.

    Raises:
        UsageError: an unknown kind of input, or an unknown option; the message says what is accepted.
        RunFormatError: a file is damaged, or of a newer perfkit.
    """
    named = [str(source)] if isinstance(source, str | Path) else [str(item) for item in source]
    if kind is not None and kind not in KINDS:
        raise make_unknown_name_error("kind", kind, KINDS)
    input_kind, function, target = _recognize(named, kind)
    return _call(function, input_kind, target, options)


def compare(*runs: str | Path, anyway: bool = False) -> Comparison:
    """Compare two or more runs with the first, as `perfkit compare` does.

    Args:
        runs: folders of suites (`FOLDER@VARIANT` for one variant), of loops, of reports on traces or memory; traces;
            recordings of memory.
        anyway: compare even if the devices are of different kinds.

    Raises:
        UsageError: something is not a run, or cannot be compared with the first.
    """
    return compare_runs(runs, anyway=anyway, command=_format_call("compare", [*map(str, runs)]))


def _recognize(named: Sequence[str], kind: str | None) -> tuple[str, Callable[..., Any], Any]:
    """The kind of input in words, the function that analyzes it, and its argument."""
    if kind == "trace":
        return "traces", _analyze_traces, tuple(named)
    if kind == "flight":
        return "flight-recorder dumps", _analyze_flight, select_dumps(named) or tuple(named)
    if kind == "memory":
        return "a memory recording", _analyze_memory, _require_one(named, "memory recordings")
    if kind == "suite":
        return "a suite", _analyze_suite, (Path(_require_one(named, "suites")), "")
    if len(named) == 1:
        return _recognize_one(named[0])
    if dumps := select_dumps(named):
        return "flight-recorder dumps", _analyze_flight, dumps
    return "traces", _analyze_traces, tuple(named)


def _require_one(named: Sequence[str], what: str) -> str:
    if len(named) != 1:
        raise UsageError(f"perfkit.analyze takes one source; {len(named)} {what} were named")
    return named[0]


def _recognize_one(name: str) -> tuple[str, Callable[..., Any], Any]:
    if name == STANDARD_INPUT or (not is_url(name) and is_pattern(name) and not Path(name).exists()):
        dumps = () if name == STANDARD_INPUT else select_dumps([name])
        return ("flight-recorder dumps", _analyze_flight, dumps) if dumps else ("traces", _analyze_traces, (name,))
    if is_url(name):
        memory = name.partition("?")[0].endswith((".pickle", ".pkl", ".parquet", ".json.gz", ".json")) and (
            is_memory_recording(name)
        )
        return ("a memory recording", _analyze_memory, name) if memory else ("traces", _analyze_traces, (name,))
    path = Path(name).expanduser()
    if path.is_dir():
        return _recognize_folder(path)
    if path.exists():
        return _recognize_file(path)
    folder, variant = split_variant(name)
    if variant and (Path(folder) / SUITE_FILE).is_file():
        return "a suite", _analyze_suite, (Path(folder), variant)
    raise UsageError(f"{name}: no such file or folder; perfkit.analyze takes {ACCEPTED}", id="usage.no_file")


def _recognize_folder(path: Path) -> tuple[str, Callable[..., Any], Any]:
    kind = find_kind(path)
    if kind is not None and kind.marker == SUITE_FILE:
        return "a suite", _analyze_suite, (path, "")
    if kind is not None and _has_schema(path / kind.marker):
        return "a stored report", lambda folder: read_result(folder, kind), path
    if (path / REPORT_JSON).is_file():
        return "a stored report", read_suite_report, path
    if suite_and_variant := _find_variant(path):
        return "a run of a suite", _analyze_suite, suite_and_variant
    if dumps := select_dumps([str(path)]):
        return "flight-recorder dumps", _analyze_flight, dumps
    try:
        sources = expand_sources(path)
    except UsageError:
        return _recognize_other_folder(path)
    return "traces", _analyze_traces, sources


def _recognize_other_folder(path: Path) -> tuple[str, Callable[..., Any], Any]:
    """The only memory recording of a folder without traces."""
    files = sorted(file for file in path.iterdir() if file.is_file())
    recordings = [file for file in files if is_memory_recording(file)]
    if len(recordings) == 1:
        return "a memory recording", _analyze_memory, str(recordings[0])
    if recordings:
        raise UsageError(f"{path}: {len(recordings)} memory recordings; name one, such as {recordings[0]}")
    inside = sorted(file.name for file in path.iterdir())
    shown = list_first(inside, _SHOWN) if inside else "nothing"
    raise UsageError(f"{path}: a folder with {shown}; perfkit.analyze takes {ACCEPTED}")


def _recognize_file(path: Path) -> tuple[str, Callable[..., Any], Any]:
    if not path.is_file():  # a pipe, which can be read once
        return "traces", _analyze_traces, (str(path),)
    folder = path.absolute().parent
    kind = KIND_BY_MARKER.get(path.name)
    if kind is not None and _has_schema(path):
        if path.name == SUITE_FILE:
            return "a suite", _analyze_suite, (folder, "")
        return "a stored report", lambda source: read_result(source, kind), folder
    if path.name == REPORT_FILE and (find_kind(folder) or (folder / REPORT_JSON).is_file()):
        return _recognize_folder(folder)
    if dumps := select_dumps([str(path)]):
        return "flight-recorder dumps", _analyze_flight, dumps
    if is_memory_recording(path):
        return "a memory recording", _analyze_memory, str(path)
    if is_trace_file(path):
        return "a trace", _analyze_traces, (str(path),)
    head = _read_head(path)
    begins = f"that begins with {head[:20]!r}" if head else "that is empty"
    raise UsageError(f"{path}: a file {begins}; perfkit.analyze takes {ACCEPTED}")


def _has_schema(path: Path) -> bool:
    """True for a file of perfkit: a trace may have any name."""
    return b'"schema_version"' in _read_head(path)


def _read_head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _find_variant(path: Path) -> tuple[Path, str] | None:
    """The suite and the variant of a folder `<suite>/<variant>` or `<suite>/<variant>/<repeat>`; None for another."""
    absolute = path.resolve()
    for suite in absolute.parents[:2]:
        if (suite / SUITE_FILE).is_file():
            inside = absolute.relative_to(suite).as_posix()
            for run in read_suite(suite).suite.runs:
                if run.path == inside or run.path.startswith(f"{inside}/"):
                    return suite, run.variant
    return None


def _call(function: Callable[..., Any], input_kind: str, target: Any, options: dict[str, Any]) -> Any:
    known = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            if known:
                raise make_unknown_name_error(f"option for {input_kind}", name, known)
            raise UsageError(
                f"perfkit.analyze takes no options for {input_kind}; omit {', '.join(options)}", id="usage.conflict"
            )
    return function(target, **options)


def _analyze_suite(named: tuple[Path, str]) -> Analysis:
    folder, variant = named
    stored = read_suite(folder)
    analysis = inspect_suite(stored).analysis
    return select_variant(analysis, variant, stored.suite.baselines) if variant else analysis


def _analyze_traces(
    sources: Sequence[str],
    *,
    against: Named = (),
    device: str | None = None,
    counters: str | Path | None = None,
    capture: Named = (),
    what_if: str | Iterable[str] = (),
    engine: str = engines.PROCESSES,
    jobs: int | None = None,
    max_bytes: int | None = None,
    time_limit_s: float = math.inf,
    progress: Progress | None = None,
) -> TraceAnalysis:
    return analyze_traces(
        sources,
        against=against,
        device=device,
        counters=counters,
        capture=capture,
        what_ifs=(what_if,) if isinstance(what_if, str) else tuple(what_if),
        engine=engine,
        jobs=jobs,
        limits=ReadLimits(json_bytes=max_bytes, seconds=time_limit_s),
        command=_format_call("analyze", sources),
        progress=progress,
    )


def _analyze_memory(source: str) -> MemoryAnalysis:
    return analyze_memory(source, command=_format_call("analyze", [source]))


def _analyze_flight(sources: Sequence[str], *, jobs: int | None = None) -> FlightAnalysis:
    return analyze_flight(sources, command=_format_call("analyze", sources), jobs=jobs)


def _format_call(function: str, sources: Sequence[str]) -> str:
    return redact_text(f"perfkit.{function}({', '.join(_shorten_sources(sources))})")


def _shorten_sources(sources: Sequence[str]) -> Iterator[str]:
    yield from map(repr, sources[:_SHOWN])
    if len(sources) > _SHOWN:
        yield "..."
