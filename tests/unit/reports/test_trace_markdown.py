import re

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports import trace_markdown
from tests.fixtures import sample_trace_analysis as sample


def test_tables_are_whole_and_no_text_forms_markup(traces: TraceAnalysis) -> None:
    width = 0
    for line in trace_markdown.render(traces).split("\n"):
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells
        assert "<img" not in line
        assert "</script>" not in line


def test_the_document_has_every_section_there_is_data_for() -> None:
    text = trace_markdown.render(sample.realistic())
    for title in ("Findings", "What changed", "Where the time went", "What you could win in rank 0", "Ranks"):
        assert f"## {title}" in text
    assert "## Ranks" not in trace_markdown.render(sample.alone())
    assert "n/a: its size was not recorded" in text


def test_long_tables_are_cut_and_say_so() -> None:
    rows = sample.trace("rank 0", 0).kernels * 2
    assert "\n\n5 more in tables/" in trace_markdown.render(sample.alone(kernels=rows))
