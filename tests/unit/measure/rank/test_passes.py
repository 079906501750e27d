"""The pass that measures energy, with a fake GPU and a session that only counts."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfkit.core.record.quantity import Measurement, Quantity, Unknown
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import ENERGY_S, RunSpec, Schedule, WorkloadSpec
from perfkit.instruments.sensors.energy import EnergyWindow
from perfkit.measure.rank import passes
from perfkit.measure.rank.passes import run_energy_pass
from perfkit.measure.rank.run_rank import _select_passes
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.engines.compile import Compile
from perfkit.techniques.optimizers.optim import Optim
from tests.fixtures.energy_counter import BUSY_W, FakeGpu

STEP_S = 0.06
CUDA = torch.device("cuda", 0)


class FakeSession:
    """A session on `device` whose ranks all say what this one says, unless told otherwise."""

    def __init__(self, gpu: FakeGpu, device: torch.device = CUDA, *, counter: bool = True) -> None:
        self.gpu = gpu
        self.state = SimpleNamespace(device=device)
        self.spec = SimpleNamespace(schedule=Schedule(energy_s=ENERGY_S))
        self.sensors = SimpleNamespace(energy_joules=gpu.joules) if counter else None
        self.found: dict[str, Quantity] = {}
        self.recorder = SimpleNamespace(
            record=SimpleNamespace(samples=StepSamples(wall_s=(9.0, STEP_S), device_s=(STEP_S, STEP_S, 7.0))),
            update=self.found.update,
        )
        self.next_step = 25
        self.rewound: list[int] = []
        self.data = SimpleNamespace(rewind=self.rewound.append)
        self.losses = [torch.zeros(1)]
        self.steps: list[int] = []
        self.others_agree = True
        self.others_most = 0

    def step(self, index: int) -> None:
        self.steps.append(index)
        self.gpu.step(STEP_S)
        self.next_step = index + 1

    def agree(self, answer: bool) -> bool:
        return answer and self.others_agree

    def reduce_max(self, count: int) -> int:
        return max(count, self.others_most)

    def round_to_cycles(self, count: int) -> int:
        return count


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()
    monkeypatch.setattr(passes, "EnergyWindow", partial(EnergyWindow, now=made.now, sleep=made.sleep))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    return made


def run(session: FakeSession) -> None:
    given: Any = session
    run_energy_pass(given)


def test_steps_are_repeated_until_the_window_is_long_enough(gpu: FakeGpu) -> None:
    session = FakeSession(gpu)
    run(session)
    assert session.steps == list(range(25, 25 + 84))  # 5 s of 60 ms, one begun
    energy, power = session.found["energy"], session.found["power"]
    assert isinstance(energy, Measurement)
    assert isinstance(power, Measurement)
    assert energy.value == pytest.approx(BUSY_W * STEP_S, rel=0.01)
    assert power.value == pytest.approx(BUSY_W, rel=0.01)
    assert set(session.found) == {"energy", "power"}  # nothing else: these steps are no samples
    assert session.losses == []
    assert session.rewound == [25]  # to the first batch, with which all variants begin


def test_all_ranks_run_as_many_as_the_one_that_needs_most(gpu: FakeGpu) -> None:
    session = FakeSession(gpu)
    session.others_most = 100
    run(session)
    assert len(session.steps) == 100


def _without_nvml(gpu: FakeGpu) -> FakeSession:
    return FakeSession(gpu, counter=False)


def _on_a_cpu(gpu: FakeGpu) -> FakeSession:
    return FakeSession(gpu, torch.device("cpu"), counter=False)


def _another_rank_without(gpu: FakeGpu) -> FakeSession:
    session = FakeSession(gpu)
    session.others_agree = False
    return session


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_without_nvml, "NVML is not available, and no other energy counter is supported"),
        (_on_a_cpu, "no energy counter is supported on a CPU"),
        (_another_rank_without, "another rank's energy cannot be read"),
    ],
)
def test_without_a_counter_no_step_is_run_and_the_reason_is_told(
    gpu: FakeGpu, make: Callable[[FakeGpu], FakeSession], reason: str
) -> None:
    session = make(gpu)
    run(session)
    assert session.found == {"energy": Unknown(reason=reason), "power": Unknown(reason=reason)}
    assert session.steps == []


def test_the_pass_is_there_where_it_was_asked_for_and_before_what_slows_steps() -> None:
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), passes=("trace",), schedule=Schedule(energy_s=ENERGY_S))
    assert list(_select_passes(spec)) == ["warm-up", "timed steps", "energy", "trace"]
    later = RunSpec(workload=WorkloadSpec(name="gpt"), passes=(), schedule=Schedule(energy_s=ENERGY_S))
    assert list(_select_passes(later)) == ["warm-up", "timed steps", "energy"]
    assert "energy" not in _select_passes(RunSpec(workload=WorkloadSpec(name="gpt")))


@pytest.mark.parametrize(
    ("techniques", "compiled_in_place", "graphs", "expected"),
    [
        ((), False, {}, False),
        ((), False, {"graphs": 1.0}, True),  # a function within the user's model
        ((Optim(use="torchao_adamw8bit"),), False, {"graphs": 1.0}, False),
        ((Optim(use="torchao_adamw8bit"), Compile()), True, {"graphs": 2.0}, True),
    ],
)
def test_graphs_of_an_optimizer_are_not_the_models(
    techniques: tuple[Technique, ...], compiled_in_place: bool, graphs: dict[str, float], expected: bool
) -> None:
    model = torch.nn.Linear(2, 2)
    if compiled_in_place:
        model.compile(backend="eager")
    session: Any = SimpleNamespace(
        recorder=SimpleNamespace(record=SimpleNamespace(facts=graphs)),
        state=SimpleNamespace(model=model),
        techniques=techniques,
    )
    assert passes._is_model_compiled(session) is expected
