"""`perfkit bench --energy` where there is nothing to read energy from."""

import re
from pathlib import Path

from click.testing import CliRunner

from perfkit_cli.main import commands


def test_on_a_cpu_it_says_in_one_line_that_there_is_no_counter(tmp_path: Path) -> None:
    result = CliRunner().invoke(commands, ["bench", "--energy", "--device", "cpu", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: --energy .*\bcpu\b.*\n", result.stderr)
    assert not (tmp_path / "out").exists()
