"""`perfkit view` as a process: it serves, and ends quietly with Ctrl-C."""

import json
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.suites import record, write_suite


def started(perfkit: Any, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The process and the address that it prints."""
    process = perfkit.start("view", *arguments)
    line = process.stdout.readline()
    found = re.search(r"(http://\S+)#token=[\w-]{16,}", line)
    assert found, (line, process.stderr.read() if process.poll() is not None else "")
    return process, found[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_ended(perfkit: Any, how: signal.Signals) -> None:
    write_suite(perfkit.folder / "runs" / "a", {"baseline": [record(0.1)]})
    before = sorted((perfkit.folder / "runs").rglob("*"))
    process, url = started(perfkit, "runs", "--port", "0")
    with urllib.request.urlopen(url + "api/runs") as answer:
        assert [run["path"] for run in json.load(answer)["runs"]] == ["a"]
    with urllib.request.urlopen(url) as answer:
        assert b"<title>runs" in answer.read()
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    assert process.returncode == (0 if how == signal.SIGINT else 128 + signal.SIGTERM)
    assert "Traceback" not in err
    assert out == ""
    assert sorted((perfkit.folder / "runs").rglob("*")) == before


def test_a_report_is_drawn_by_the_installed_command_and_nothing_is_left(perfkit: Any, tmp_path: Path) -> None:
    write_suite(perfkit.folder / "runs" / "a", {"baseline": [record(0.1)]})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    perfkit.environment["TMPDIR"] = str(scratch)
    process, url = started(perfkit, "runs", "--port", "0")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with urllib.request.urlopen(url + "report/a") as answer:
            page = answer.read()
            if answer.status == 200:
                break
        time.sleep(0.3)
    assert "100\u00a0ms".encode() in page
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere"),
        pytest.param(("file",), "file", marks=pytest.mark.nightly),
        ((".", "--host", "192.0.2.1"), "192.0.2.1"),
    ],
)
def test_what_cannot_be_served_is_a_usage_error(perfkit: Any, arguments: tuple[str, ...], message: str) -> None:
    (perfkit.folder / "file").touch()
    result = perfkit("view", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_serving_to_others_is_warned_of(perfkit: Any) -> None:
    process, _ = started(perfkit, ".", "--host", "0.0.0.0", "--port", "0")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "warning" in err
    assert "0.0.0.0" in err
