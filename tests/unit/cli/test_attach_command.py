"""`perfkit attach` of this process, with somebody else's stacks in place of a look."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfkit.instruments.sensors import process_sampling
from perfkit_cli.main import commands
from tests.fixtures.spied_process import facts, threads
from tests.fixtures.suites import changed


@pytest.mark.parametrize(("interrupted", "code"), [(False, 0), (True, 130)])
def test_a_look_that_ctrl_c_ended_is_drawn_and_says_so(
    interrupted: bool, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = changed(facts(), interrupted=interrupted), list(threads())
    monkeypatch.setattr(process_sampling, "sample_process", lambda *_args, **_options: seen)
    ended = CliRunner().invoke(commands, ["attach", str(os.getpid()), "--out", str(tmp_path / "look")])
    assert ended.exit_code == code, ended.output
    assert ("Ctrl-C" in (tmp_path / "look/report.md").read_text()) is interrupted
