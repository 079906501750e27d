"""The trace pass where the profiler loses kernels; what is recorded is scripted."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.step_samples import StepSamples
from perfkit.instruments.lost_kernels import KernelCount
from perfkit.instruments.recorder import Recorder
from perfkit.instruments.recording import Recording
from perfkit.instruments.trace_recording import MonitorError, RecordedTrace
from perfkit.measure.rank import trace_pass as passes
from perfkit.store.layout import TRACE_FILE

NOTHING = -1  # CUPTI's monitor wrote no trace


class Worker:
    """A session of one rank whose recordings lose what `lost` says, one after the other."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, *lost: int | None, agree: Any = bool, **more: Any
    ) -> None:
        samples = StepSamples(wall_s=(0.5, 0.5))
        self.recorder = Recorder(folder, RankRecord(rank=0, world_size=1, status=RunStatus.OK, samples=samples))
        self.state = SimpleNamespace(device=torch.device("cuda", 0))
        self.spec = SimpleNamespace(schedule=SimpleNamespace(trace=3), **{"pm_sampling": False, **more})
        self.agree = agree
        self.data = SimpleNamespace(rewind=lambda index: None)
        self.next_step, self.leads, self._lost = 0, [], list(lost)
        monkeypatch.setattr(passes, "record_trace", self._traced)
        passes.run_trace_pass(self)  # type: ignore[arg-type]

    def step(self, index: int) -> None:
        self.next_step = index + 1

    def round_to_cycles(self, count: int) -> int:
        return count

    def _traced(
        self, count: int, path: Path, *, device: torch.device, lead: int, monitor: Any
    ) -> Recording[RecordedTrace]:
        self.leads.append(lead)
        for _ in range(count + lead):
            yield
        lost = self._lost.pop(0)
        if lost == NOTHING:
            raise MonitorError("it wrote nothing")
        path.write_text(f"lost {lost}")
        return RecordedTrace((), None if lost is None else KernelCount(1000, lost, 0), len(self.leads))

    @property
    def kept(self) -> str:
        (file,) = [each for each in self.recorder.folder.iterdir() if "trace" in each.name]
        assert file.name == TRACE_FILE
        return file.read_text()


def test_a_whole_trace_is_recorded_once_with_a_step_of_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(tmp_path, monkeypatch, 0)
    record = worker.recorder.record
    assert (worker.leads, worker.next_step, worker.kept, record.warnings) == ([1], 4, "lost 0", ())
    assert record.facts == {"traced_kernels_launched": 1000, "traced_kernels_lost": 0, "trace_passes": 1}


def test_one_in_a_thousand_is_borne(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(Worker(tmp_path, monkeypatch, 1).leads) == 1


@pytest.mark.parametrize(
    ("lost", "kept", "said"), [((400, 0), 0, False), ((400, 400), 400, True), ((400, 900), 400, True)]
)
def test_what_is_lost_is_traced_once_more_and_the_better_is_kept(
    lost: tuple[int, int], kept: int, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(tmp_path, monkeypatch, *lost)
    record = worker.recorder.record
    assert (len(worker.leads), worker.kept) == (2, f"lost {kept}")
    assert record.facts == {"traced_kernels_launched": 1000, "traced_kernels_lost": kept, "trace_passes": 2}
    assert worker.next_step == 9  # one step under no profiler in between
    assert [(each.id, each.figures["lost"]) for each in record.warnings] == [("recording.lost_kernels", kept)] * said


def test_all_ranks_repeat_where_one_lost_some_and_keep_traces_of_the_same_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(tmp_path, monkeypatch, 0, 0, agree=lambda answer: False)  # another rank says no, twice
    assert (len(worker.leads), worker.recorder.record.facts["trace_passes"]) == (2, 2)


def test_where_nothing_tells_nothing_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(tmp_path, monkeypatch, None)
    assert (len(worker.leads), worker.recorder.record.facts, worker.recorder.record.warnings) == (1, {}, ())


def test_a_monitor_that_wrote_nothing_is_followed_by_kineto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(tmp_path, monkeypatch, NOTHING, 0)
    record = worker.recorder.record
    assert (worker.leads, worker.kept) == ([1, 1], "lost 0")
    assert [note.id for note in record.warnings] == ["recording.monitor_failed"]
    assert (record.trace_backend, record.facts["trace_passes"]) == ("kineto", 1)


def test_counters_that_cannot_be_sampled_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device, seconds: float) -> Any:
        raise UnavailableError(f"no monitors for {seconds:g} s", id="skip.package")

    monkeypatch.setattr(passes, "start_sampling", refuse)
    worker = Worker(tmp_path, monkeypatch, 0, pm_sampling=True)
    assert [note.id for note in worker.recorder.record.warnings] == ["recording.no_counters"]
    assert worker.kept == "lost 0"
