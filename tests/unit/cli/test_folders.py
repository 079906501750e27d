"""Which folders a report may be written to."""

from pathlib import Path

import pytest

from perfkit.errors import UsageError
from perfkit_cli.folders import refuse_foreign


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
        with pytest.raises(UsageError, match="exists already and holds no report of `perfkit analyze`"):
            refuse(taken)
