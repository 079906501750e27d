"""Where the report of an analysis goes."""

from pathlib import Path

import pytest

from perfkit.errors import UsageError
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
    assert analyze._name(sources) == name


def test_only_an_earlier_report_is_replaced(tmp_path: Path) -> None:
    analyze._refuse_foreign(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    analyze._refuse_foreign(tmp_path / "empty")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / analyze.ANALYSIS_FILE).touch()
    analyze._refuse_foreign(tmp_path / "ours")
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError, match="exists already"):
            analyze._refuse_foreign(taken)
