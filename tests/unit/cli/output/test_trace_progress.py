"""What is said while traces are read."""

import io
import re

from rich.console import Console

from perfkit.analysis.pipeline.trace_analysis import TraceProgress
from perfkit_cli.output.trace_progress import format_trace_read, show_reading


def test_a_file_with_its_size_and_speed() -> None:
    read = TraceProgress(number=3, total=64, source="job/rank2.json.gz", json_bytes=326 * 2**20, seconds=4.0)
    line = format_trace_read(read)
    assert line.startswith("[3/64] job/rank2.json.gz: 326 MiB ")
    assert line.endswith(" 81.5 MiB/s")


def test_a_file_that_could_not_be_read() -> None:
    read = TraceProgress(number=1, total=2, source="a.json", json_bytes=0, seconds=0.0, error="a.json: not JSON")
    assert re.fullmatch(r"\[1/2\] a\.json: .*: not JSON", format_trace_read(read))


def test_nothing_is_said_where_no_one_watches() -> None:
    out = io.StringIO()
    with show_reading(Console(file=out)) as progress:
        assert progress is None
    with show_reading(Console(file=out, force_terminal=True, quiet=True)) as progress:
        assert progress is None
    assert out.getvalue() == ""


def test_on_a_terminal_each_file_replaces_the_last() -> None:
    out = io.StringIO()
    with show_reading(Console(file=out, force_terminal=True, width=100)) as progress:
        assert progress is not None
        progress(TraceProgress(1, 1, "a.json", 10**6, 0.5))
    assert "a.json" in out.getvalue()
