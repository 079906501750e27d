"""Which folders a report may be written to."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.store.summary import SUMMARY_FILE, ReportSummary, compute_digest
from perfkit_cli.options.folders import choose_folder, refuse_foreign


def test_only_an_earlier_report_of_the_command_is_replaced(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        refuse_foreign(tmp_path / name, "analysis.json", "perfkit analyze")

    refuse("new")
    (tmp_path / "empty").mkdir()
    refuse("empty")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/analysis.json").touch()
    refuse("ours")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/memory.json").touch()
    (tmp_path / "file").touch()
    for taken in ("other", "file"):
        with pytest.raises(UsageError, match=rf"{taken} .*`perfkit analyze`.* --out"):
            refuse(taken)


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file/x", "file/x/y"):
        with pytest.raises(UsageError, match=r"/file is a file.* --out"):
            refuse_foreign(tmp_path / name, "analysis.json", "perfkit analyze")


def test_a_folder_that_may_not_be_written_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(UsageError, match=rf"{tmp_path} .* --out"):
        refuse_foreign(tmp_path / "new", "analysis.json", "perfkit analyze")


def report_on(folder: Path, *sources: str) -> None:
    folder.mkdir()
    (folder / "analysis.json").touch()
    summary = ReportSummary(kind="trace", name="trace on a T4", created_at="", sources=compute_digest(sources))
    write_json(folder / SUMMARY_FILE, summary)


def test_the_report_on_another_trace_is_not_overwritten(tmp_path: Path) -> None:
    def chosen(*sources: str, out: Path | None = None) -> Path:
        return choose_folder(sources, out, tmp_path / "trace", "analysis.json", "perfkit analyze")

    assert chosen("a/trace.json") == tmp_path / "trace"
    report_on(tmp_path / "trace", "a/trace.json", "b/trace.json")
    assert chosen("b/trace.json", str(Path("a/trace.json").absolute())) == tmp_path / "trace"
    assert chosen("a/trace.json") == tmp_path / "trace-2"
    report_on(tmp_path / "trace-2", "a/trace.json")
    assert chosen("a/trace.json") == tmp_path / "trace-2"
    assert chosen("c/trace.json") == tmp_path / "trace-3"
    with pytest.raises(UsageError, match=r"trace on a T4.* --out"):
        chosen("a/trace.json", out=tmp_path / "trace")


def test_what_comes_through_a_pipe_is_another_trace_each_time(tmp_path: Path) -> None:
    report_on(tmp_path / "trace", "-")
    assert choose_folder("-", None, tmp_path / "trace", "analysis.json", "perfkit analyze") == tmp_path / "trace-2"


def test_a_report_that_does_not_say_what_it_is_on_is_kept(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace/analysis.json").touch()
    assert choose_folder(["a"], None, tmp_path / "trace", "analysis.json", "perfkit analyze") == tmp_path / "trace-2"
