"""Control and bidi characters of other people's files are told, not obeyed."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from perfkit.core.allocations import TextNumbers
from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.readers.trace_reader import read_trace
from perfkit_reports.render.markdown_text import escape_markdown, format_code_block
from perfkit_reports.render.safe_text import SafeText

EVIL = "\x1b]0;mine\x07gemm\u202e\x9b2J\u2066"
SHOWN = r"\x1b]0;mine\x07gemm\u202e\x9b2J\u2066"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SHOWN),
        ("\x00\x08\x0b\r\x1f\x7f", r"\x00\x08\x0b\x0d\x1f\x7f"),
        ("\u2028\ud800\uffff\u061c", r"\u2028\ud800\uffff\u061c"),
        ("two\nlines\tand a tab, naïve 你好 → ", "two\nlines\tand a tab, naïve 你好 → "),
    ],
)
def test_what_acts_on_a_reader_is_escaped(text: str, shown: str) -> None:
    assert escape_control_chars(text) == shown


def test_names_of_a_trace_are_visible_as_soon_as_they_are_read(tmp_path: Path) -> None:
    ranks = {
        "Collective name": EVIL,
        "In msg nelems": 4,
        "Out msg nelems": 4,
        "dtype": EVIL,
        "Process Group Name": EVIL,
    }
    event = {"ph": "X", "cat": "kernel", "name": EVIL, "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": ranks}
    thread = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": EVIL}}
    document = {EVIL: EVIL, "deviceProperties": [{"id": 0, "name": EVIL}], "traceEvents": [event, thread]}
    (tmp_path / "trace.json").write_text(json.dumps(document))
    trace = read_trace(tmp_path / "trace.json")
    assert trace.names == [SHOWN]
    assert trace.thread_names == [SHOWN]
    assert trace.devices == {0: SHOWN}
    assert trace.properties[SHOWN] == SHOWN
    (collective,) = trace.collectives
    assert (collective.name, collective.dtype, collective.group) == (SHOWN, SHOWN, SHOWN)


def test_names_of_a_recording_of_memory_are_visible() -> None:
    names = TextNumbers()
    assert names.number(EVIL) == names.number(SHOWN) == 1
    assert names.list_texts() == ("", SHOWN)


def test_no_text_acts_on_a_terminal() -> None:
    """What an exception of the program said, for one."""
    console = Console(width=200, color_system=None)
    with console.capture() as printed:
        console.print(SafeText.assemble((EVIL, "bold"), SafeText(EVIL), EVIL).append(EVIL, "red"))
    assert printed.get() == SHOWN * 4 + "\n"


def test_no_text_acts_through_markdown() -> None:
    assert format_code_block(EVIL) == f"```\n{SHOWN}\n```"
    assert not set("\x1b\x07\u202e\x9b\u2066") & set(escape_markdown(EVIL))
