"""A launch that is ended from outside writes down what it was."""

from pathlib import Path

import pytest

from perfkit.errors import Terminated
from perfkit.files import read_json
from perfkit.measure.launch import process
from perfkit.measure.launch.process import launch
from perfkit.measure.launch.ranks import RankProcess
from perfkit.record import Run, Status
from perfkit.spec import RunSpec, WorkloadSpec


@pytest.mark.parametrize(
    ("error", "reason"), [(KeyboardInterrupt, "interrupted from the keyboard"), (Terminated, "terminated (SIGTERM)")]
)
def test_the_signal_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[KeyboardInterrupt], reason
) -> None:
    ranks: list[RankProcess] = []

    def start_rank(*_: object, **__: object) -> RankProcess:
        ranks.append(RankProcess(["sleep", "300"], env={"PATH": "/usr/bin:/bin"}))
        return ranks[-1]

    def wait(*_: object) -> None:
        raise error

    monkeypatch.setattr(process, "start_rank", start_rank)
    monkeypatch.setattr(process, "_wait", wait)
    with pytest.raises(error):
        launch(RunSpec(workload=WorkloadSpec(name="gpt")), tmp_path / "run", lambda _: None)
    run = read_json(tmp_path / "run" / "run.json", Run)
    assert (run.status, run.reason) == (Status.INTERRUPTED, reason)
    assert ranks[0].returncode is not None
