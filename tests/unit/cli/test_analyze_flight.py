"""`perfkit analyze` tells dumps of flight recorders from traces."""

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import perfkit
from perfkit.analysis.parallel import engines
from perfkit.flight.mismatch import Mismatch
from perfkit_cli.main import commands
from tests.fixtures.flight_dumps import WORLD, dump, entry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for rank, ranks_dump in enumerate((dump(entry(0), entry(1, ended=False)), dump(entry(0)))):
        (tmp_path / f"comm_lib_trace_rank_{rank}").write_bytes(pickle.dumps(ranks_dump, 2))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def analyze(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["analyze", *arguments], prog_name="perfkit")


def test_a_folder_of_dumps_is_a_report_on_them(folder: Path) -> None:
    ended = analyze(str(folder), "--out", "hang")
    assert ended.exit_code == 0, ended.output
    assert (folder / "hang/report.html").is_file()
    again = analyze("comm_lib_trace_rank_0", "comm_lib_trace_rank_1", "--json")
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    [finding], [meeting] = found["findings"], found["mismatched_collectives"]
    assert finding["id"] == "collective.absent_rank"
    assert finding["title"][1:] in " ".join(ended.output.split())
    assert (meeting["mismatch"], meeting["absent"]) == (Mismatch.ABSENT, [1])


@pytest.mark.parametrize(
    ("option", "value"),
    [("device", "here"), ("engine", "ray"), ("max-bytes", "1GiB"), ("time-limit", "5s")],
)
@pytest.mark.usefixtures("folder")
def test_options_of_traces_are_refused(option: str, value: str) -> None:
    ended = analyze("comm_lib_trace_rank_0", f"--{option}", value)
    assert isinstance(ended.exception, SystemExit)
    assert ended.exit_code == 2
    assert f"--{option} is for traces" in ended.output


def test_many_dumps_are_read_by_as_many_processes_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = 19
    groups = {WORLD: range(ranks)}
    for rank in range(ranks):
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(dump(entry(0, ended=rank == 5), groups=groups), 2))
    asked: list[int | None] = []

    def read_here(function: Callable[[str], Any], files: Sequence[str], *, jobs: int | None) -> Iterator[Any]:
        asked.append(jobs)
        return ((file, function(file)) for file in files)

    monkeypatch.setattr(engines, "run_parallel", read_here)
    ended = analyze(str(tmp_path), "--jobs", "3", "--json")
    assert ended.exit_code == 0, ended.output
    assert asked == [3]
    assert len(json.loads(ended.stdout)["ranks"]) == ranks
    assert perfkit.analyze(tmp_path, jobs=2).ranks[5].unfinished == 0
    assert asked == [3, 2]
