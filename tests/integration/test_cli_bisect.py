"""`perfkit bisect` as a user runs it: the commit that made a small model do more work."""

import json

import pytest

from tests.conftest import CommandLine
from tests.integration.test_cli_check import git, prepare, write


@pytest.mark.slow
def test_the_commit_that_added_an_op_is_found(perfkit: CommandLine) -> None:
    project = prepare(perfkit)
    for number in range(1, 4):
        planted = "y = y + torch.softmax(y, -1) * 0" if number >= 2 else "pass"
        write(project.folder, f"{planted}  # {number}")
        git(project.folder, "commit", "-a", "-m", f"change {number}")
    arguments = ("bisect", "--good", "HEAD~3", "--exact", "--quantity", "kernel_count", "--out", "out")
    result = project(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads((project.folder / "out" / "bisect.json").read_text())
    assert found["candidates"][found["first_bad"]]["detail"] == "change 2"
    assert found["first_bad"] - found["last_good"] == 1
    assert len(found["steps"]) <= 3
    assert any("softmax" in cause for cause in found["causes"])
    assert "change 2" in (project.folder / "out" / "report.html").read_text()
    again = project("bisect", "--resume", "out", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["steps"] == found["steps"]
    other = project("bisect", "--resume", "out", "--good", "HEAD~2")
    assert other.returncode == 2
    assert "--good HEAD~3" in other.stderr
