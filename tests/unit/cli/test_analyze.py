"""Where the report of an analysis goes."""

import pytest

from perfkit_cli import analyze


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        (("traces/step.pt.trace.json.gz",), "step"),
        (("trace.json",), "trace"),
        (("https://host/run/trace.json.gz?key=a/b",), "trace"),
        (("odd name*.json",), "odd-name"),
        (("..json",), "trace"),
        (("job/rank0.json", "job/rank1.json"), "job"),
        (("gs://bucket/run/rank0.json", "gs://bucket/run/rank1.json"), "run"),
    ],
)
def test_a_report_is_named_after_its_traces(sources: tuple[str, ...], name: str) -> None:
    assert analyze._derive_report_name(sources) == name
    assert analyze._derive_report_name(sources, (1.2, 1.25)) == f"{name}-1.2s-1.25s"
