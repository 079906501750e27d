"""What is left of a run after something went wrong."""

import re
from pathlib import Path

from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.step_samples import StepSamples
from perfkit_cli.run_script.program_watcher import describe_run_contents


def test_what_is_there_is_told(tmp_path: Path) -> None:
    assert describe_run_contents(tmp_path / "nowhere") == ""
    (tmp_path / "suite.json").touch()  # claimed, and no more
    assert describe_run_contents(tmp_path) == ""
    (tmp_path / "suite.json").write_text("{}")
    assert describe_run_contents(tmp_path) == ""
    rank = tmp_path / "train" / "0" / "rank0"
    record = RankRecord(rank=0, world_size=1, status=RunStatus.CRASHED, samples=StepSamples(wall_s=(0.1, 0.1, 0.1)))
    write_json(rank / "record.json", record)
    steps = describe_run_contents(tmp_path)
    assert re.match(r"3\b", steps)
    (rank / "trace.json.gz").touch()
    assert describe_run_contents(tmp_path).split(", ")[0] == steps
    assert "trace" in describe_run_contents(tmp_path)
    assert "memory" not in describe_run_contents(tmp_path)
    (rank / "memory.parquet").touch()
    (rank / "record.json").write_text("{ cut off")
    steps, trace, memory = describe_run_contents(tmp_path).split(", ")
    assert re.match(r"0\b", steps)
    assert ("trace" in trace, "memory" in memory) == (True, True)
