"""Odd and damaged traces through the real command: a report that says what is missing, or one line that says why not.

Every variant is made from one small trace. Never a traceback, a hang or a number that is none.
"""

import codecs
import gzip
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfkit_cli.main import commands
from tests.fixtures.gpu_traces import training_events
from tests.fixtures.traces import Event

HEAD: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
    "distributedInfo": {"rank": 3, "world_size": 4},
}


def text(events: list[Any] | None = None, **more: Any) -> bytes:
    return json.dumps({**HEAD, **more, "traceEvents": training_events() if events is None else events}).encode()


def each(change: Callable[[Event], Any]) -> bytes:
    """The trace with every event changed, those that become None left out."""
    changed = (change(json.loads(json.dumps(event))) for event in training_events())
    return text([event for event in changed if event is not None])


def some(change: Callable[[Event], Any], every: int = 7) -> bytes:
    """The trace with every seventh event changed."""
    events: list[Any] = training_events()
    events[3::every] = [change(dict(event)) for event in events[3::every]]
    return text(events)


WHOLE = text()
GZIPPED = gzip.compress(WHOLE)
LONG = gzip.compress(text(training_events(1000)))


def without(*members: str) -> Callable[[Event], Event]:
    return lambda event: {key: value for key, value in event.items() if key not in members}


def only(*categories: str) -> bytes:
    return each(lambda event: event if event["cat"] in categories else None)


def as_text(event: Event) -> Event:
    return {**event, "args": {key: str(value) for key, value in event["args"].items()}}


def capitals(event: Event) -> Event:
    names = {"kernel": "Kernel", "cpu_op": "Operator", "cuda_runtime": "Runtime"}
    return {**event, "cat": names.get(event["cat"], event["cat"])}


def old_correlation(event: Event) -> Event:
    args = dict(event["args"])
    if "correlation" in args:
        args["External id"] = args.pop("correlation")
    return {**event, "args": args}


def absurd_sizes(event: Event) -> Event:
    args = {**event["args"], "Input Dims": [[2**62, -4], [[1, 2], "a"], [1.5]], "Input type": ["float", 7, None]}
    return {**event, "args": args}


IDENTIFIERS = ("device", "number", "parent", "rank")
SIGNED = ("error",)  # of a replay: shorter than the recording, or longer


class Odd(NamedTuple):
    name: str
    content: bytes
    said: str = ""  # what the report says of it


READ = [
    Odd("plain.json", WHOLE),
    Odd("whole.json.gz", GZIPPED),
    Odd("members.json.gz", gzip.compress(WHOLE[:900]) + gzip.compress(WHOLE[900:])),
    Odd("whole.json.zst", zstandard.compress(WHOLE)),
    Odd("no_extension", WHOLE),
    Odd("spaces and ünïcode.json", WHOLE),
    Odd("list.json", json.dumps(training_events()).encode()),
    Odd("bom.json", codecs.BOM_UTF8 + WHOLE, "reading.encoding"),
    Odd("utf16.json", WHOLE.decode().encode("utf-16"), "reading.encoding"),
    Odd(
        "nan.json",
        WHOLE.replace(b'"dur": 20.0', b'"dur": NaN').replace(b'"dur": 10', b'"dur": -Infinity'),
        "reading.not_finite",
    ),
    Odd("control.json", WHOLE.replace(b"aten::mm", b"aten::m\x01m"), "reading.control_characters"),
    Odd("bad_utf8.json", WHOLE.replace(b"aten::mm", b"aten::m\xffm"), "reading.invalid_utf8"),
    Odd("quote.json", WHOLE.replace(b'"aten::mm"', b'"aten::"mm"'), "reading.unescaped_quotes"),
    Odd("comma.json", WHOLE.replace(b"]}", b",]}"), ""),
    Odd("cut.json", WHOLE[: len(WHOLE) * 2 // 3], "reading.truncated"),
    Odd("cut.json.gz", GZIPPED[: len(GZIPPED) * 2 // 3], "reading.damaged"),
    Odd("damaged.json.gz", LONG[:-2000] + bytes(200) + LONG[-1800:], "reading.damaged"),
    Odd("tail.json", WHOLE + b"\0\0garbage", ""),
    Odd("no_device.json", text(deviceProperties=[]), "limit.no_ceilings"),
    Odd("no_steps.json", each(lambda event: None if event["cat"] == "user_annotation" else event), ""),
    Odd("kernels.json", only("kernel"), "limit.unlinked_kernels"),
    Odd("kernels_unlinked.json", each(lambda event: without("args")(event) if event["cat"] == "kernel" else None), ""),
    Odd("ops.json", only("cpu_op"), "NVIDIA H100 80GB HBM3"),
    Odd("launches.json", only("cpu_op", "cuda_runtime"), "limit.missing_kernels"),
    Odd("ranges.json", only("user_annotation"), "trace.no_work"),
    Odd("text_args.json", each(as_text), ""),
    Odd("text_times.json", each(lambda event: {**event, "ts": str(event["ts"]), "dur": str(event["dur"])}), ""),
    Odd("capitals.json", each(capitals), ""),
    Odd("old.json", each(old_correlation), ""),
    Odd("negative.json", some(lambda event: {**event, "dur": -5}), "reading.negative_durations"),
    Odd("no_duration.json", some(without("dur")), "reading.no_durations"),
    Odd("backwards.json", text(training_events()[::-1]), ""),
    Odd("before_1970.json", each(lambda event: {**event, "ts": event["ts"] - 1e6}), ""),
    Odd("at_once.json", each(lambda event: {**event, "ts": 5}), ""),
    Odd("no_time.json", each(lambda event: {**event, "ts": 0, "dur": 0}), ""),
    Odd("far.json", some(lambda event: {**event, "ts": 1e300}), "reading.impossible_times"),
    Odd("names.json", some(lambda event: {**event, "name": ["a", 1]}), "reading.wrong_types"),
    Odd("values.json", text([None, 5, "x", [1], {}, {"ph": 5}, *training_events()]), "reading.broken_events"),
    Odd("sizes.json", each(absurd_sizes), ""),
    Odd("long_name.json", some(lambda event: {**event, "name": "x" * 100_000}), ""),
    Odd("one_id.json", each(lambda event: {**event, "args": {**event["args"], "correlation": 5}}), ""),
    Odd("huge_id.json", each(lambda event: {**event, "args": {**event["args"], "correlation": 2**70}}), ""),
    Odd("deep.json", WHOLE.replace(b"[[2048, 2048]", b"[" * 5000 + b"]" * 5000, 2)),
    Odd("centuries.json", each(lambda event: {**event, "dur": 4e15}), "reading.impossible_durations"),
    Odd("eons.json", some(lambda event: {**event, "ts": 9e15}, 3), "reading.impossible_times"),
    Odd("bytes.json", each(lambda event: {**event, "cat": "gpu_memcpy", "args": {"bytes": 2**63 - 1}}), ""),
    Odd("elements.json", each(lambda event: {**event, "args": {**event["args"], "In msg nelems": 2**62}}), ""),
    Odd("markup.json", each(lambda event: {**event, "name": f"</script><b>{event['name']}"}), ""),
]  # fmt: skip

REFUSED = [
    Odd("nothing.json", b"", "empty"),
    Odd("words.json", b"hello world\n" * 100, "not JSON"),
    Odd("number.json", b"42", "not JSON"),
    Odd("zeros.json", bytes(5000), ""),
    Odd("other.json", b'{"a": [1, 2, 3]}', "without traceEvents"),
    Odd("object.json", b'{"traceEvents": {"a": 1}}', "not a list of events"),
    Odd("null.json", b'{"traceEvents": null}', "not a list of events"),
    Odd("no_events.json", b'{"traceEvents": []}', "zero duration"),
    Odd("numbers.json", b"[1, 2, 3]", "none of them an event"),
    Odd("early.json", WHOLE[:40], "truncated or damaged before its events begin"),
    Odd("archive.json", b"PK\x03\x04" + bytes(100), "unpack it first"),
    Odd("twice.json.gz", gzip.compress(GZIPPED), "not JSON"),
    Odd("picture.json.gz", gzip.compress(bytes(range(256)) * 50), ""),
    Odd("bomb.json.gz", gzip.compress(b"[" + b" " * (600 << 20), 1), "no event"),
]


def analyze(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(commands, ["analyze", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    return result


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def check_sums(found: dict[str, Any]) -> None:
    """Times and sizes are numbers, none negative, and the parts add up."""
    wrong = [
        (name, value)
        for name, value in numbers(found["traces"])
        if not math.isfinite(value) or (value < 0 and name not in IDENTIFIERS + SIGNED)
    ]
    assert not wrong
    for trace in found["traces"]:
        if trace["time_split"]:
            assert sum(part["share"] for part in trace["time_split"]) == pytest.approx(1)
        total = trace["coverage"]["kernel_s"]
        steps = max(len(trace["steps"]), 1)
        for rows in (trace["kernels"], trace["ops"]):
            assert math.fsum(row["seconds"] for row in rows) * steps == pytest.approx(total, abs=1e-12)
        assert math.fsum(row["busy_s"] for row in trace["streams"]) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("odd", READ, ids=lambda odd: odd.name)
def test_a_report_says_what_is_odd(tmp_path: Path, odd: Odd) -> None:
    out = tmp_path / "out"
    result = analyze(written(tmp_path / odd.name, odd.content), "--out", out)
    assert result.exit_code == 0, result.output
    assert {"report.html", "analysis.json", "report.md"} <= {path.name for path in out.iterdir()}
    found = json.loads((out / "analysis.json").read_bytes())
    check_sums(found)
    notes = [*found["warnings"]]
    notes += [note for trace in found["traces"] for note in (*trace["file_info"]["notes"], *trace["notes"])]
    ids = [finding["id"] for finding in found["findings"]]
    assert odd.said in "\n".join([*ids, *(f"{note['id']}: {note['text']}" for note in notes)])
    assert "</script><b>" not in (out / "report.html").read_text()


@pytest.mark.parametrize("odd", REFUSED, ids=lambda odd: odd.name)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path, odd: Odd) -> None:
    path = written(tmp_path / odd.name, odd.content)
    result = analyze(path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert re.fullmatch(rf"Error: {re.escape(str(path))}: [^\n]{{10,300}}\n", result.output)
    assert odd.said in result.output
    assert not (tmp_path / "out").exists()


_ODD_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=8),
    st.lists(st.integers(-5, 2**40), max_size=3), st.sampled_from(["X", "B", "E", "M", "kernel", "cpu_op", "aten::mm"]),
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The trace with members of some of its events changed, taken out or added."""
    events: list[Any] = json.loads(json.dumps(training_events(2)))
    for _ in range(draw(st.integers(1, 12))):
        event = events[draw(st.integers(0, len(events) - 1))]
        target = event.get("args", event) if draw(st.booleans()) else event
        target = target if isinstance(target, dict) else event
        member = draw(st.sampled_from([*target, "args", "ts", "dur", "correlation", "Input Dims", "stream"]))
        if draw(st.integers(0, 4)) == 0:
            target.pop(member, None)
        else:
            target[member] = draw(_ODD_VALUES)
    events += draw(st.lists(_ODD_VALUES, max_size=2))
    cut = draw(st.integers(0, 3000)) if draw(st.integers(0, 3)) == 0 else 0
    whole = text(events)
    return whole[: len(whole) - cut]


@pytest.mark.nightly
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=damaged())
def test_whatever_the_members_of_events_are(tmp_path: Path, content: bytes) -> None:
    out = tmp_path / "out"
    result = analyze(written(tmp_path / "damaged.json", content), "--out", out, "--quiet")
    if result.exit_code == 0:
        check_sums(json.loads((out / "analysis.json").read_bytes()))
    else:
        assert result.exit_code == 2
        assert result.output.count("\n") == 1
