"""Reads Nsight Compute's CSV: launches with their metrics, in base units.

Two layouts: the raw page has a launch a row, its metrics as columns, and a row of units beneath the header; the details
page has a metric a row. Around and between the rows stand the profiler's own lines (`==PROF== ...`) and whatever the
program printed. Values are written for people: in scaled units, with the separators of the machine's locale.
"""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.core.errors import RunFormatError
from perfkit.core.note import Note, make_note

_KERNEL, _METRIC, _UNIT, _VALUE = "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
_DESCRIBES = frozenset(
    ("ID", "Process ID", "Process Name", "Host Name", _KERNEL, "Context", "Stream", "Block Size", "Grid Size", "Device",
     "CC", "Section Name", _METRIC, _UNIT, _VALUE)
)  # fmt: skip

_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # PowerShell writes UTF-16
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_TIMES = {
    "second": 1.0,
    "s": 1.0,
    "msecond": 1e-3,
    "ms": 1e-3,
    "usecond": 1e-6,
    "us": 1e-6,
    "nsecond": 1e-9,
    "ns": 1e-9,
}
_SCALED = re.compile(r"([kmgtp]?)(byte|hz|inst|cycle|sector|request|warp|block|op)s?$", re.IGNORECASE)


@dataclass(frozen=True)
class ProfiledLaunch:
    """One profiled launch of a kernel, with its metrics in base units (byte, second, hertz, counts)."""

    process: str
    kernel: str
    block: str
    grid: str
    capability: str
    metrics: dict[str, float] = field(default_factory=dict)


def read_launches(path: Path) -> tuple[list[ProfiledLaunch], tuple[Note, ...]]:
    """Read the launches of an export in order, with notes on skipped rows.

    `RunFormatError` for a file that cannot be read or holds no table of Nsight Compute.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFormatError(f"{path}: cannot be read ({error.strerror})") from None
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    lines = data.decode(encoding, errors="replace").splitlines()
    launches: list[ProfiledLaunch] = []
    skipped = 0
    for header, units, rows in _split_tables(path, lines):
        wrong = [row for row in rows if len(row) != len(header)]
        skipped += len(wrong)
        whole = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
        launches += _parse_details_page(whole) if _METRIC in header else _parse_raw_page(whole, units)
    text = f"{skipped} rows with a wrong number of fields skipped"
    return launches, (make_note("counters.skipped_rows", text, rows=skipped),) if skipped else ()


def _split_tables(path: Path, lines: list[str]) -> Iterator[tuple[list[str], dict[str, str], list[list[str]]]]:
    starts = [number for number, line in enumerate(lines) if _find_delimiter(line)]
    if not starts:
        raise RunFormatError(f"{path}: {_explain_empty(lines)}")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        delimiter = _find_delimiter(lines[start])
        body = [line for line in lines[start:end] if line.strip() and not line.startswith("==")]
        header, *rows = (_split_fields(path, line, delimiter) for line in body)
        numbered = [row for row in rows if row and row[0].strip().isdigit()]
        unit_row = next((row for row in rows if len(row) == len(header) and not row[0].strip()), None)
        yield header, dict(zip(header, unit_row, strict=True)) if unit_row else {}, numbered


def _split_fields(path: Path, line: str, delimiter: str) -> list[str]:
    """The fields of a row. Rows are lines: a quote that is not closed must not swallow those that follow."""
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:
        raise RunFormatError(f"{path}: a row is not CSV ({error}): {line[:60]!r}...") from None


def _find_delimiter(line: str) -> str:
    """The delimiter of a header line, empty for any other line."""
    if not line.lstrip().startswith(('"ID"', "ID")):
        return ""
    return next((delimiter for delimiter in ",;\t" if _KERNEL in (f.strip('" ') for f in line.split(delimiter))), "")


def _explain_empty(lines: Iterable[str]) -> str:
    errors = [line for line in lines if line.startswith("==ERROR==")]
    if errors:
        return f"contains no counters: {errors[0].removeprefix('==ERROR==').strip()}"
    return f"not an Nsight Compute table with the columns ID and {_KERNEL}; export one with `ncu --csv --page raw`"


def _parse_raw_page(rows: list[dict[str, str]], units: Mapping[str, str]) -> list[ProfiledLaunch]:
    names = [name for name in (rows[0] if rows else ()) if name not in _DESCRIBES]
    decimal = _find_decimal_point(row[name] for row in rows for name in names)
    launches = []
    for row in rows:
        launch = _make_launch(row)
        for name in names:
            _add_metric(launch.metrics, name, row[name], units.get(name, ""), decimal)
        launches.append(launch)
    return launches


def _parse_details_page(rows: list[dict[str, str]]) -> list[ProfiledLaunch]:
    decimal = _find_decimal_point(row[_VALUE] for row in rows)
    launches: dict[tuple[str, str], ProfiledLaunch] = {}
    for row in rows:
        launch = launches.setdefault((row.get("Process ID", ""), row["ID"]), _make_launch(row))
        _add_metric(launch.metrics, row[_METRIC], row[_VALUE], row.get(_UNIT, ""), decimal)
    return list(launches.values())


def _make_launch(row: Mapping[str, str]) -> ProfiledLaunch:
    return ProfiledLaunch(
        process=row.get("Process ID", ""),
        kernel=row[_KERNEL].strip(),
        block=row.get("Block Size", ""),
        grid=row.get("Grid Size", ""),
        capability=row.get("CC", "").strip(),
    )


def _add_metric(metrics: dict[str, float], name: str, text: str, unit: str, decimal: str) -> None:
    """Keep a metric that is a number in a known unit; of several under one label (details page) the first."""
    value, factor = _parse_number(text, decimal), _parse_unit_factor(unit)
    if name and value is not None and factor is not None:
        metrics.setdefault(name.strip(), value * factor)


def _find_decimal_point(texts: Iterable[str]) -> str:
    """The decimal point, `.` or `,`, of these values, which come from one machine.

    A separator before other than three digits, or after the other separator, does; one that is repeated does not.
    """
    for text in texts:
        ending = re.search(r"([.,])(\d+)\s*$", text)
        if not ending:
            continue
        mark, digits = ending.groups()
        other = "," if mark == "." else "."
        if text.count(mark) > 1:
            return other
        if other in text or len(digits) != 3:
            return mark
    return "."


def _parse_number(text: str, decimal: str) -> float | None:
    group = "," if decimal == "." else "."
    plain = re.sub(r"[\s'\u00a0\u202f\u2019]", "", text).replace(group, "").replace(decimal, ".")
    value = float(plain) if re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", plain, re.ASCII) else math.inf
    return value if math.isfinite(value) else None


def _parse_unit_factor(unit: str) -> float | None:
    """The factor of a unit to base units: `Mbyte` 1e6, `usecond` 1e-6, `Gbyte/second` 1e9; None for unknown ones."""
    over, _, under = unit.strip().partition("/")
    if under:
        top, bottom = _parse_unit_factor(over), _parse_unit_factor(under)
        return None if top is None or bottom is None else top / bottom
    if over.lower() in _TIMES:
        return _TIMES[over.lower()]
    if over in ("", "%", "1", "register/thread", "thread"):
        return 1.0
    scaled = _SCALED.match(over)
    return _PREFIXES[scaled[1].lower()] if scaled else None
