import json
import os
from pathlib import Path

from perfkit_cli.run_script.json_stdout import NO_REPORT, write_error_json, write_report_json


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT)


def test_the_report_is_written_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"title": "a"}')
    write_report_json(_open(tmp_path / "out"), tmp_path)
    assert (tmp_path / "out").read_text() == '{"title": "a"}'


def test_a_run_without_a_report_is_an_error(tmp_path: Path) -> None:
    for number, folder in enumerate((None, tmp_path)):
        write_report_json(_open(tmp_path / str(number)), folder)
        assert json.loads((tmp_path / str(number)).read_text())["error"]["id"] == NO_REPORT


def test_an_error_has_its_id(tmp_path: Path) -> None:
    write_error_json(_open(tmp_path / "out"), "usage.no_file", "no such file")
    assert json.loads((tmp_path / "out").read_text())["error"] == {"id": "usage.no_file", "message": "no such file"}
