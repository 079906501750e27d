import subprocess
import sys

import pytest

from benchmarks.gpu.packages import ROOT, find_missing, read_requirements


def test_requirements_are_those_of_the_project() -> None:
    assert read_requirements()["msgspec"].startswith("msgspec>=")
    assert "torch" in read_requirements()


@pytest.mark.slow
def test_what_is_carried_is_all_but_torch() -> None:
    command = [sys.executable, "-m", "benchmarks.gpu.packages"]
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    carried = [requirement for name, requirement in read_requirements().items() if name != "torch"]
    assert lines[:-1] == carried
    assert lines[-1].startswith("pytest")


def test_what_is_not_installed_is_missing() -> None:
    assert find_missing("no-such-package") == ("no-such-package",)
