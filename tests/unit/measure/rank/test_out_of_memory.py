"""What is written of a session whose step ran out of memory."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from perfkit.core.allocations import GRADIENT, OPTIMIZER_STATE, PARAMETER, Allocations, FailedRequest
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.spec import RunSpec, WorkloadSpec
from perfkit.instruments.recorder import Recorder
from perfkit.measure.rank.out_of_memory import record_failure
from perfkit.measure.rank.session import TrainingSession
from perfkit.store.memory_file import read_allocations
from perfkit.techniques.base.state import TrainState, World
from perfkit.workloads.workload import Workload

pytestmark = pytest.mark.usefixtures("nothing_left")
REQUEST = FailedRequest(bytes=123, message="the first time", phase="forward", step=4)


class Greedy(nn.Linear):
    """Asks for more than there is as often as it is told to."""

    failures = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.failures:
            self.failures -= 1
            torch.empty(2**60, dtype=torch.uint8)
        return super().forward(x)


def session(folder: Path, *, world_size: int = 1, broken: bool = False) -> TrainingSession:
    """One that is about to take step 4, its optimizer's state there, with gradients that the failure left."""
    model = nn.Sequential(nn.Linear(3, 5), Greedy(5, 7))

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if broken:
            raise RuntimeError("the user's own mistake")
        return model(batch["x"]).sum()

    workload = Workload(
        name="tiny",
        unit="samples",
        units_per_batch=2,
        build_model=lambda: model,
        build_optimizer=lambda model: torch.optim.Adam(model.parameters()),
        make_batch=lambda generator: {},
        loss=loss,
    )
    optimizer = workload.build_optimizer(model)
    batch = {"x": torch.randn(2, 3)}
    model(batch["x"]).sum().backward()
    optimizer.step()
    state = TrainState(
        workload=workload,
        model=model,
        device=torch.device("cpu"),
        world=World(size=world_size),
        optimizers={"": optimizer},
    )
    data: Any = SimpleNamespace(
        addresses=lambda: frozenset({batch["x"].data_ptr()}), step=lambda index, count: [batch] * count
    )
    record = RankRecord(rank=0, world_size=world_size, status=RunStatus.OUT_OF_MEMORY)
    clock: Any = None
    return TrainingSession(
        spec=RunSpec(workload=WorkloadSpec(name="tiny"), techniques=()),
        state=state,
        techniques=(),
        data=data,
        clock=clock,
        recorder=Recorder(folder, record),
        sensors=None,
        report=lambda text: None,
        next_step=4,
    )


def written(found: TrainingSession) -> Allocations:
    return read_allocations(found.recorder.folder / "memory.parquet")


def categories(found: Allocations) -> dict[str, int]:
    sums: dict[str, int] = {}
    for block in found.known:
        sums[block.category] = sums.get(block.category, 0) + block.size_bytes
    return sums


PARAMETERS = (3 * 5 + 5 + 5 * 7 + 7) * 4


def test_the_step_is_run_again_and_its_request_is_told(tmp_path: Path) -> None:
    failed = session(tmp_path)
    failed.state.model[1].failures = 1
    record_failure(failed, REQUEST)
    found = written(failed)
    assert (found.failed.bytes, found.failed.phase, found.failed.step) == (2**60, "forward", 4)
    assert (found.failed.op, found.failed.module) == ("aten::empty", "1")
    assert found.failed.line.startswith("rank/test_out_of_memory.py:")
    assert found.failed.line.endswith(" forward")
    known = categories(found)
    assert known[PARAMETER] == PARAMETERS
    assert known[OPTIMIZER_STATE] == 2 * PARAMETERS + 4 * 4
    assert GRADIENT not in known, "those that the failed step left are gone"
    assert 2 * 5 * 4 in found.size.tolist(), "the output of the layer before"
    assert failed.next_step == 4
    process = failed.recorder.record.process_memory
    assert isinstance(process.peak, Measurement)
    assert process.peak.value > 0


def test_a_step_that_does_not_fail_again_keeps_the_first_request(tmp_path: Path) -> None:
    failed = session(tmp_path)
    record_failure(failed, REQUEST)
    found = written(failed)
    assert found.failed == REQUEST
    assert set(found.step.tolist()) >= {4}


def test_of_several_ranks_only_the_training_state_is_told(tmp_path: Path) -> None:
    failed = session(tmp_path, world_size=2)
    failed.state.model[1].failures = 1
    record_failure(failed, REQUEST)
    found = written(failed)
    assert (len(found), found.failed) == (0, REQUEST)
    assert categories(found)[PARAMETER] == PARAMETERS
    assert failed.state.model[1].failures == 1, "no step was run, in which the other ranks would be waited for"


def test_another_error_the_second_time_is_raised_on(tmp_path: Path) -> None:
    failed = session(tmp_path, broken=True)
    with pytest.raises(RuntimeError, match="own mistake"):
        record_failure(failed, REQUEST)
    assert not (tmp_path / "memory.parquet").exists()
    assert not torch._C._autograd._profiler_enabled()
