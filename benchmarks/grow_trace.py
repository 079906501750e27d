"""Grows a trace to any size: its events again and again, later in time and with ids of their own.

    python benchmarks/grow_trace.py TRACE --mb 200 --out grown.json.gz

The result is laid out as Kineto writes it and has as many steps, launches, links and allocations per second as the
original, so that reading it costs what reading a longer recording would.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TextIO

# Ids that tie events together. Those of Python modules stay, since they name objects that live on.
_LINKS = {
    "External id",
    "Record function id",
    "Ev Idx",
    "correlation",
    "Sequence number",
    "Python id",
    "Python parent id",
}


class Written(float):
    """A number with the digits it was written with: times have more of them than a float holds."""

    digits: str

    def __new__(cls, digits: str) -> "Written":
        made = super().__new__(cls, digits)
        made.digits = digits
        return made


class Pattern(NamedTuple):
    """An event's text with gaps for what differs from copy to copy: its time, and `ids` (with the gap of each)."""

    text: str
    start_ns: int
    ids: tuple[int, ...]
    step: int | None

    def fill(self, shift_ns: int, ids: int, steps: int) -> str:
        time_ns = self.start_ns + shift_ns
        numbers = (f"{time_ns // 1000}.{time_ns % 1000:03d}", *(number + ids for number in self.ids))
        return self.text % (numbers if self.step is None else (self.step + steps, *numbers))


def grow(events: list[dict[str, Any]], json_bytes: int) -> Iterator[str]:
    """Texts of events, without the comma between them, until they amount to `json_bytes`."""
    # What the profiler says of itself and of its processes stands in a file once.
    again = [event for event in events if event.get("cat") not in ("Trace", None) and "ts" in event]
    once = [event for event in events if event.get("cat") in ("Trace", None) or "ts" not in event]
    patterns = [_pattern(event) for event in again]
    last = max(pattern.start_ns + _ns(event.get("dur", 0)) for pattern, event in zip(patterns, again, strict=True))
    period = last - min(pattern.start_ns for pattern in patterns) + 1_000_000
    ids = 1 + max((number for pattern in patterns for number in pattern.ids), default=0)
    steps = len({pattern.step for pattern in patterns if pattern.step is not None})
    written = 0
    for event in once:
        text = _pattern(event).fill(0, 0, 0) if "ts" in event else _untimed(event)
        written += len(text)
        yield text
    copy = 0
    while written < json_bytes:
        for pattern in patterns:
            text = pattern.fill(copy * period, copy * ids, copy * steps)
            written += len(text) + 2
            yield text
        copy += 1


def write(base: dict[str, Any], json_bytes: int, out: TextIO) -> None:
    """Write a whole file in Kineto's layout."""
    head = {key: value for key, value in base.items() if key != "traceEvents"}
    out.write("{\n")
    for key, value in head.items():
        out.write(f"  {json.dumps(key)}: {json.dumps(value)},\n")
    out.write('  "traceEvents": [')
    separator = "\n"
    for text in grow(base["traceEvents"], json_bytes):
        out.write(separator)
        out.write(text)
        separator = ",\n"
    out.write("\n  ]\n}\n")


def _pattern(event: dict[str, Any]) -> Pattern:
    step = None
    head = {key: value for key, value in event.items() if key not in ("ts", "dur", "args", "id")}
    fields = [f"{_literal(key)}: {_literal(value)}" for key, value in head.items()]
    if (step_mark := re.fullmatch(r"ProfilerStep#(\d+)", str(event.get("name", "")))) is not None:
        step = int(step_mark[1])
        fields[list(head).index("name")] = '"name": "ProfilerStep#%d"'
    ids: list[int] = []
    if "id" in event:
        fields.append(f'"id": {_gap(event["id"], ids)}')
    lines = [", ".join(fields), '"ts": %s' + (f', "dur": {_digits(event["dur"])}' if "dur" in event else "")]
    # The gap of the time stands behind that of a flow's id, so ids within the first line would come first.
    if "id" in event:
        lines = [", ".join(fields[:-1]), f"{lines[1]}, {fields[-1]}"]
    if "args" in event:
        args = (
            f"{_literal(key)}: {_gap(value, ids) if key in _LINKS else _literal(value)}"
            for key, value in event["args"].items()
        )
        lines.append('"args": {\n      ' + ", ".join(args) + "\n    }")
    return Pattern("  {\n    " + ",\n    ".join(lines) + "\n  }", _ns(event["ts"]), tuple(ids), step)


def _untimed(event: dict[str, Any]) -> str:
    return "  " + json.dumps(event)


def _gap(value: Any, ids: list[int]) -> str:
    """A gap for a number that must differ from copy to copy; 0 and text mean that there is none."""
    if not isinstance(value, int) or value <= 0:
        return _literal(value)
    ids.append(value)
    return "%d"


def _literal(value: Any) -> str:
    return json.dumps(value).replace("%", "%%")


def _digits(number: Written | int) -> str:
    return number.digits if isinstance(number, Written) else str(number)


def _ns(microseconds: Written | int) -> int:
    return int(Decimal(_digits(microseconds)) * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--mb", type=float, required=True, help="size of the JSON, in 1e6 bytes")
    parser.add_argument("--out", type=Path, required=True, help="a .json.gz")
    options = parser.parse_args()
    with gzip.open(options.trace) as file:
        base = json.load(file, parse_float=Written)
    with gzip.open(options.out, "wt", compresslevel=3) as out:
        write(base, int(options.mb * 1e6), out)


if __name__ == "__main__":
    main()
