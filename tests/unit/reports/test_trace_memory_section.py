"""The section on memory in reports on traces, where memory was recorded, and its absence where it was not."""

import io

from msgspec.structs import replace
from rich.console import Console

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports import trace_html, trace_markdown, trace_terminal
from perfkit_reports.trace_series import DETAILED, memory_holders
from perfkit_reports.trace_tables import tables
from tests.fixtures import sample_accounts
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.parsed_page import Page

MIB = 2**20


def recorded() -> TraceAnalysis:
    return sample.alone(memory=sample_accounts.step(300 * MIB))


def terminal(analysis: TraceAnalysis) -> str:
    stream = io.StringIO()
    trace_terminal.render(analysis, Console(file=stream, width=100, no_color=True))
    return " ".join(stream.getvalue().split())


def test_every_form_has_the_balance() -> None:
    analysis = recorded()
    page = Page(trace_html.render(analysis))
    assert "memory" in {attributes.get("id") for tag, attributes in page.tags if tag == "section"}
    assert "#memory" in {attributes.get("href") for tag, attributes in page.tags if tag == "a"}
    assert "## What fills the memory" in trace_markdown.render(analysis)
    assert "Memory: 300 MiB at the peak in" in terminal(analysis)


def test_without_memory_there_is_no_section() -> None:
    analysis = sample.alone()
    page = Page(trace_html.render(analysis))
    assert "memory" not in {attributes.get("id") for tag, attributes in page.tags if tag == "section"}
    assert "What fills the memory" not in trace_markdown.render(analysis)
    assert "Memory:" not in terminal(analysis)


def test_what_ran_out_and_what_grows_is_said_on_a_terminal() -> None:
    failed = sample_accounts.out_of_memory()
    assert failed.failed is not None
    text = terminal(sample.alone(memory=failed))
    assert "! An allocation of" in text


def test_tables_hold_all_traces_and_sum_to_the_peak() -> None:
    made = tables(recorded())
    rows = [row for row in made["memory"].to_pylist() if row["in_peak"]]
    assert sum(row["bytes"] for row in rows) == 300 * MIB
    assert {row["trace"] for row in rows} == {recorded().traces[0].label}
    assert made["memory_timeline"].num_rows > 0
    assert tables(sample.alone())["memory"].num_rows == 0


def test_of_many_ranks_the_fullest_comes_first_whichever_it_is() -> None:
    many = sample.many_ranks(12)
    sizes = [(500 if place == 10 else 100 + place) * MIB for place in range(12)]
    traces = tuple(
        replace(trace, memory=sample_accounts.step(size)) for trace, size in zip(many.traces, sizes, strict=True)
    )
    holders = memory_holders(replace(many, traces=traces))
    assert (holders[0].name, holders[0].account.peak_bytes) == (traces[10].label, 500 * MIB)
    assert len(holders) <= DETAILED + 1
