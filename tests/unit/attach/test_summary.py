"""What `summary()` returns: always something to read, with figures once there are some."""

from pathlib import Path

import pytest

import perfkit
from perfkit.attach.summary import RunSummary, build_summary


def test_before_anything_was_recorded_it_says_so(tmp_path: Path) -> None:
    summary = perfkit.profile(tmp_path / "a<b").summary()
    assert "recorded" in str(summary)
    assert "a<b" in str(summary)
    assert repr(summary) == str(summary)
    assert "a&lt;b" in summary._repr_html_()


@pytest.mark.slow
def test_a_folder_that_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    rank = tmp_path / "x" / "0" / "rank0"
    rank.mkdir(parents=True)
    (rank / "record.json").write_text("{")
    (tmp_path / "suite.json").write_text("{")
    summary = build_summary(tmp_path)
    assert "suite.json" in str(summary)
    assert "Traceback" not in str(summary)


def test_text_and_page() -> None:
    summary = RunSummary(text="12 ms a step", page="<b>12 ms</b>")
    assert f"{summary}" == "12 ms a step"
    assert summary._repr_html_() == "<b>12 ms</b>"
