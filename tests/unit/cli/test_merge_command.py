"""`perfkit analyze --part` and `perfkit merge`: what they refuse, and the report that both give."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfkit_cli import main
from tests.fixtures.gpu_traces import training_file


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main.commands, list(map(str, arguments)))


def test_parts_are_merged_into_the_analysis_of_all(tmp_path: Path) -> None:
    for rank in range(3):
        training_file(tmp_path / f"job/rank{rank}.json", rank=rank, world_size=3, late_us=10.0 * rank)
    for part in ("2/2", "1/2"):
        ended = call("analyze", tmp_path / "job", "--part", part, "--into", tmp_path / "parts", "--jobs", 1)
        assert ended.exit_code == 0, ended.output
    merged = json.loads(call("merge", tmp_path / "parts", "--jobs", 1, "--json").stdout)
    whole = json.loads(call("analyze", tmp_path / "job", "--jobs", 1, "--json").stdout)
    assert [row["rank"] for row in merged["fleet"]["ranks"]] == [0, 1, 2]
    different = {name for name in whole if merged[name] != whole[name]}
    assert different <= {"command", "created_at"}


@pytest.mark.parametrize(
    ("options", "id"),
    [
        (["--part", "1/2"], "usage.missing_option"),
        (["--into", "parts"], "usage.missing_option"),
        (["--part", "1/2", "--into", "parts", "--json"], "usage.conflict"),
        (["--part", "1/2", "--into", "parts", "--out", "report"], "usage.conflict"),
        (["--part", "0/2", "--into", "parts"], "usage.wrong"),
        (["--part", "3/2", "--into", "parts"], "usage.wrong"),
        (["--part", "one", "--into", "parts"], "usage.wrong"),
    ],
)
def test_impossible_parts_are_refused(tmp_path: Path, options: list[str], id: str) -> None:
    ended = call("analyze", training_file(tmp_path / "one.json"), *options)
    assert ended.exit_code == 2
    assert id in ended.output
