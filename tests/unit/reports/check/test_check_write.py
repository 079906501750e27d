import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from perfkit.check.judge.read import read_check
from perfkit.check.result import Check
from perfkit.errors import PerfkitError
from perfkit_reports.check import markdown
from perfkit_reports.check.write import write_check


def test_every_form_is_written(every_verdict: Check, tmp_path: Path) -> None:
    paths = write_check(every_verdict, tmp_path / "out", report="https://ci.example/report.html")
    assert [path.name for path in paths] == ["check.json", "summary.json", "comment.md", "junit.xml", "report.html"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in paths)
    assert read_check(tmp_path / "out") == every_verdict
    comment = (tmp_path / "out" / "comment.md").read_text(encoding="utf-8")
    assert comment == markdown.render(every_verdict, report="https://ci.example/report.html")
    assert ElementTree.parse(tmp_path / "out" / "junit.xml").getroot().tag == "testsuites"


def test_any_check_can_be_written(check: Check, tmp_path: Path) -> None:
    write_check(check, tmp_path)
    assert json.loads((tmp_path / "check.json").read_bytes())["verdict"] == check.verdict.value


def test_inconclusive_as_a_failure_is_one_of_junits(every_verdict: Check, tmp_path: Path) -> None:
    write_check(every_verdict, tmp_path, inconclusive="failure")
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert len(root.findall(".//failure")) == 4 + 2


def test_a_folder_that_cannot_be_written_is_told(every_verdict: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PerfkitError, match="cannot be written"):
        write_check(every_verdict, tmp_path / "file")
