"""What a pass that raises costs: an instrumented one its own figures, any other the run."""

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from perfkit.core.errors import UsageError
from perfkit.core.files import read_json
from perfkit.core.record.quantity import Unknown
from perfkit.core.record.rank_record import Flops, RankRecord, RunStatus
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_technique
from perfkit.core.texts.error_text import TEXT_CHARS
from perfkit.measure.rank import run_rank as rank_module
from perfkit.measure.rank.run_rank import limit_gloo_workers, run_rank
from perfkit.techniques.engines.compile import Compile

COUNTED_LATER = Flops(model=Unknown(reason="x"), hardware=Unknown(reason="not counted yet"))


class Passes:
    """All passes of a run in a session that trains nothing; those in `failing` raise in the middle of a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: dict[str, BaseException]) -> None:
        self.run: list[str] = []
        self.model = nn.Linear(2, 2)
        self.gradients: list[bool] = []
        self.failing = failing
        for table in (rank_module.ALWAYS, rank_module.INSTRUMENTED):
            for name in tuple(table):
                monkeypatch.setitem(table, name, self._named(name))
        monkeypatch.setattr(rank_module, "check_imports", lambda: None)
        monkeypatch.setattr(rank_module, "join_group", lambda *_: None)
        monkeypatch.setattr(rank_module, "set_up_session", self._set_up)

    def _set_up(self, spec: RunSpec, device: object, world: object, recorder: Any, report: object) -> Any:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        state = SimpleNamespace(zero_grad=optimizer.zero_grad, close=lambda: None)
        recorder.update(flops=COUNTED_LATER)
        return SimpleNamespace(state=state, recorder=recorder, next_step=3, techniques=(Compile(),))

    def _named(self, name: str) -> Callable[[Any], None]:
        def run(session: Any) -> None:
            self.run.append(name)
            self.gradients.append(self.model.weight.grad is not None)
            if name == "timed steps":
                session.recorder.update(samples=StepSamples(wall_s=(0.1, 0.1)))
            if name in self.failing:
                self.model(torch.ones(1, 2)).sum().backward()
                raise self.failing[name]

        return run


def record_of(folder: Path, *, world_size: int = 1) -> tuple[RunStatus, RankRecord]:
    launch = LaunchSpec(world_size=world_size)
    passes = ("trace", "memory", "evidence", "echo")
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=launch, passes=passes)
    ended = run_rank(spec, folder, rank=0, local_rank=0, report=lambda _: None)
    return ended, read_json(folder / "rank0" / "record.json", RankRecord)


@pytest.mark.parametrize(
    "error", [RuntimeError("no storage"), MemoryError("no more"), torch.OutOfMemoryError("CUDA out of memory")]
)
@pytest.mark.parametrize("name", ["trace", "memory", "evidence", "echo"])
def test_an_instrumented_pass_that_raises_costs_its_own_figures(tmp_path, monkeypatch, name: str, error) -> None:
    passes = Passes(monkeypatch, {name: error})
    ended, record = record_of(tmp_path)
    assert (ended, record.status, record.reason, record.traceback) == (RunStatus.OK, RunStatus.OK, "", "")
    assert passes.run == ["warm-up", "timed steps", "trace", "memory", "evidence", "echo"]
    assert not any(passes.gradients)  # none is left of the step in which it ended
    assert record.samples.wall_s == (0.1, 0.1)
    (warning,) = record.warnings
    assert (warning.id, warning.figures) == ("run.pass_failed", {"pass_name": name})
    assert f"{type(error).__name__}: {error}" in warning.text
    assert record.flops is not None
    hardware = record.flops.hardware
    assert isinstance(hardware, Unknown)
    assert (type(error).__name__ in hardware.reason) == (name == "evidence")


@pytest.mark.parametrize("name", ["warm-up", "timed steps"])
def test_a_pass_that_everything_rests_on_ends_the_run(tmp_path, monkeypatch, name: str) -> None:
    Passes(monkeypatch, {name: RuntimeError("broken")})
    ended, record = record_of(tmp_path)
    assert (ended, record.status, record.failed_pass) == (RunStatus.FAILED, RunStatus.FAILED, name)
    assert record.reason == "RuntimeError: broken"


@pytest.mark.parametrize("name", ["warm-up", "trace"])
@pytest.mark.parametrize("error", [ValueError("x" * 3_000_000), UsageError("x" * 3_000_000)])
def test_a_long_message_does_not_make_a_long_record(tmp_path, monkeypatch, name: str, error) -> None:
    Passes(monkeypatch, {name: error})
    record_of(tmp_path)
    assert (tmp_path / "rank0" / "record.json").stat().st_size < 2 * TEXT_CHARS


def test_the_flight_record_is_left_once_the_frames_of_what_failed_are_gone(tmp_path, monkeypatch) -> None:
    """Of a rank that ran out of memory they hold it; and what memory does not suffice for is warned of."""

    class Held:
        pass

    held: list[weakref.ref[Held]] = []

    def failing(_: object) -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        raise MemoryError

    def leave(_: Path) -> None:
        gone = held[0]() is None
        raise MemoryError(f"gone: {gone}")

    Passes(monkeypatch, {})
    monkeypatch.setitem(rank_module.ALWAYS, "timed steps", failing)
    monkeypatch.setattr(rank_module.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(rank_module, "save_flight_record", leave)
    monkeypatch.setattr(rank_module, "record_failure", lambda *_: None)
    _, record = record_of(tmp_path)
    assert record.status == RunStatus.OUT_OF_MEMORY
    (warning,) = record.warnings
    assert warning.id == "run.no_flight_record"
    assert warning.text.endswith("MemoryError: gone: True")


def test_a_step_that_a_technique_cannot_go_with_is_skipped_with_the_reason(tmp_path, monkeypatch) -> None:
    said = "torch.compile with aot_autograd does not currently support double backward"
    Passes(monkeypatch, {"warm-up": RuntimeError(said)})
    ended, record = record_of(tmp_path)
    assert (ended, record.status, record.traceback) == (RunStatus.SKIPPED, RunStatus.SKIPPED, "")
    assert record.reason_id == "skip.step"
    assert record.reason.startswith("compile ")


def test_of_several_ranks_one_that_leaves_a_pass_takes_no_further_part(tmp_path, monkeypatch) -> None:
    passes = Passes(monkeypatch, {"trace": RuntimeError("broken")})
    ended, record = record_of(tmp_path, world_size=2)
    assert passes.run == ["warm-up", "timed steps", "trace"]
    assert record.status == RunStatus.OK
    assert ended == RunStatus.CRASHED  # so that the parent does not wait for the others for ever


def test_leaving_the_program_within_a_step_is_told_as_a_failure(tmp_path, monkeypatch) -> None:
    Passes(monkeypatch, {"timed steps": SystemExit(3)})
    _, record = record_of(tmp_path)
    assert (record.status, record.reason) == (RunStatus.FAILED, "SystemExit: 3")


@pytest.mark.parametrize(("technique", "workers"), [("tp", ["one worker"]), ("zero3", []), ("ddp:hook=powersgd", [])])
def test_where_layers_are_split_groups_have_one_worker(technique, workers, tmp_path, monkeypatch) -> None:
    Passes(monkeypatch, {})
    done: list[str] = []
    monkeypatch.setattr(rank_module, "limit_gloo_workers", lambda: done.append("one worker"))
    monkeypatch.setattr(rank_module, "join_group", lambda *_: done.append("joined"))
    launch = LaunchSpec(world_size=2)
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=launch, techniques=(parse_technique(technique),))
    run_rank(spec, tmp_path, rank=0, local_rank=0, report=lambda _: None)
    assert done == [*workers, "joined"]


CPU = torch.device("cpu")


@pytest.fixture
def rendezvous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(c10d, "_new_process_group_helper", c10d._new_process_group_helper)
    yield f"file://{tmp_path}/rendezvous"
    dist.destroy_process_group()


def workers(group: dist.ProcessGroup) -> int:
    backend = group._get_backend(CPU)
    assert isinstance(backend, dist.ProcessGroupGloo)  # from torch 2.14 on a subclass stays one
    return backend.options._threads


@pytest.mark.parametrize("interface", ["", "lo"])
def test_groups_have_one_worker(rendezvous: str, interface: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", interface)
    limit_gloo_workers()
    dist.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
    of_mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp")).get_group("tp")
    groups = [dist.group.WORLD, dist.new_group([0], use_local_synchronization=True), of_mesh]
    assert [workers(group) for group in groups] == [1, 1, 1]
    summed = torch.ones(3)
    dist.all_reduce(summed, group=groups[1])
    assert summed.tolist() == [1.0, 1.0, 1.0]


def test_torch_itself_starts_two(rendezvous: str) -> None:
    """Where it no longer does, or takes options for Gloo, `perfkit/measure/rank/run_rank.py` has had its time."""
    dist.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
    assert workers(dist.group.WORLD) == 2
