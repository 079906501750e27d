"""Whether another interpreter can measure."""

import sys
from pathlib import Path

import pytest

from perfkit.check.environments.installed_packages import list_versions
from perfkit.check.environments.probe_interpreter import expose_perfkit, probe_interpreter
from perfkit.core.errors import UsageError


def test_only_perfkit_is_in_the_exposed_folder():
    with expose_perfkit() as folder:
        assert [each.name for each in folder.iterdir()] == ["perfkit"]
        assert (folder / "perfkit" / "__init__.py").is_file()
    assert not folder.exists()


@pytest.mark.slow
def test_this_interpreter_can_measure():
    with expose_perfkit() as folder:
        assert probe_interpreter(Path(sys.executable), (folder,)) == list_versions()


def fake_interpreter(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 3 9; exit 1", "3.9"),
        ("echo 3 12; echo \"ModuleNotFoundError: No module named 'msgspec'\" >&2; exit 1", "msgspec"),
        ("exit 7", "exit code 7"),
    ],
)
def test_what_cannot_measure_is_refused_with_the_reason(script, said, tmp_path):
    with pytest.raises(UsageError, match=said) as raised:
        probe_interpreter(fake_interpreter(tmp_path / "interpreter", script), ())
    assert raised.value.id == "check.no_environment"


def test_what_does_not_start_is_refused(tmp_path):
    with pytest.raises(UsageError) as raised:
        probe_interpreter(tmp_path / "none", ())
    assert raised.value.id == "check.no_environment"
