"""The scripts for a GPU, on a machine without one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.packages import ROOT


def stands(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu.stands", "--device", "cpu", "--out", str(out), *more]
    return subprocess.run(command, cwd=ROOT, env={**os.environ}, text=True, capture_output=True, timeout=300)


@pytest.mark.nightly
def test_a_script_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    first = stands(tmp_path, "--budget", "1")
    assert first.returncode == 0, first.stdout + first.stderr
    saved = tmp_path / "cpu" / "stands.json"
    assert list(json.loads(saved.read_text())["rows"]) == ["versions"]
    second = stands(tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    assert re.search(r"^versions: .*already", second.stdout, re.MULTILINE)
    ended = {name: (row["status"], row["reason"]) for name, row in json.loads(saved.read_text())["rows"].items()}
    assert ended.pop("versions") == ended.pop("packages") == ("ok", "")
    assert ended.pop("tests")[0] == "skipped"
    assert set(ended.values()) == {("skipped", "needs a GPU")}


@pytest.mark.slow
def test_a_row_that_there_is_not_names_those_there_are(tmp_path: Path) -> None:
    answer = stands(tmp_path, "--only", "version")
    assert answer.returncode == 2
    assert "no row version; there are versions, packages" in answer.stderr
