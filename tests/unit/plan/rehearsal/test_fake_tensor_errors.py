"""What a plan cannot do is told in one line, with the op and the module, on programs as users write them."""

from pathlib import Path
from types import FunctionType

import pytest
import torch

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.errors import UnavailableError
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.plan.rehearsal import value_reads
from perfkit.plan.rehearsal.fake_tensor_errors import name_failures
from perfkit.plan.rehearsal.module_locator import ModuleLocator
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, rehearse_step

PROGRAM = """
import torch
from torch import nn
from perfkit import Workload

@torch.library.custom_op("perfkit_test::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2

halve.register_autograd(lambda ctx, grad: grad / 2, setup_context=lambda ctx, inputs, output: None)
BUILT = nn.Linear(8, 8)

class Layer(nn.Module):
    def __init__(self, does):
        super().__init__()
        self.linear, self.does = nn.Linear(8, 8), does

    def forward(self, x):
        return self.does(self.linear(x))

def waits(x):
    while x.sum() > 0:
        pass

DOES = {
    "selects": lambda x: x[x > 0],
    "halves": halve,
    "numpy": lambda x: x * float(x.detach().numpy().mean()),
    "branches": lambda x: x if x.mean() > 0 else -x,
    "checks": lambda x: 1 / 0 if torch.isnan(x.sum()) else x,
    "waits": waits,
    "narrows": lambda x: nn.functional.linear(x, x.new_empty(3, 3)),
}

def build(does="branches", built=False, key="x"):
    return Workload(
        name="odd", unit="samples", units_per_batch=4,
        build_model=lambda: BUILT if built else nn.Sequential(nn.Sequential(Layer(DOES[does]))),
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters()),
        make_batch=lambda generator: {"x": torch.rand(4, 8, generator=generator)},
        loss=lambda model, batch: model(batch[key]).sum(),
    )
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "odd.py"
    file.write_text(PROGRAM)
    return file


def planned(program: Path, techniques: str = "baseline", **params: str | bool) -> RehearsedStep:
    (variant,) = parse_variants(techniques)
    workload = WorkloadSpec(name=f"{program}:build", params=params)
    return rehearse_step(RunSpec(workload=workload, techniques=variant, launch=LaunchSpec()))


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("selects", r"aten\.nonzero\.default in 0\.0 \(Layer\) needs tensor values.*: measure it with perfkit bench"),
        (
            "halves",
            r"perfkit_test\.halve\.default in 0\.0 \(Layer\) has no fake kernel: .*register_fake",
        ),
        ("numpy", r"0\.0 \(Layer\) fails on fake tensors, RuntimeError: \.numpy\(\) is not supported"),
        ("narrows", r"aten\.mm\.default in 0\.0 \(Layer\) fails.* RuntimeError: .*\[4, 8\] X \[3, 3\]"),
    ],
)
def test_the_op_and_the_module_are_named_in_one_line(program: Path, does: str, message: str) -> None:
    with pytest.raises(UnavailableError, match=message) as raised:
        planned(program, does=does)
    assert "\n" not in str(raised.value)


def test_what_fails_outside_of_the_model_is_named_by_its_line(program: Path) -> None:
    with pytest.raises(UnavailableError, match=r"^odd\.py:\d+ .*KeyError: 'z'"):
        planned(program, key="z")


def test_a_branch_that_depends_on_values_is_said(program: Path) -> None:
    (said,) = planned(program, does="branches").assumptions
    assert (said.id, said.figures) == ("plan.value_read", {"module": "0.0 (Layer)"})


def test_nothing_is_out_of_order(program: Path) -> None:
    assert planned(program, does="checks").allocations is not None


def test_a_loop_that_waits_for_a_value_is_ended(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_reads, "_MOST", 20)
    with pytest.raises(UnavailableError, match=r"^0\.0 \(Layer\) .*\b20 times"):
        planned(program, does="waits")


def test_reads_are_counted_at_each_place_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_reads, "_MOST", 20)
    values = value_reads.ValueReads(ModuleLocator())

    def update(parameters: int) -> None:
        for _ in range(parameters):
            values.record_read()
            values.record_read()

    update(20)
    with pytest.raises(UnavailableError, match=r"\b20 times"):
        update(21)


def test_a_model_that_was_built_before_is_planned(program: Path) -> None:
    linear = build_memory_account(planned(program, built=True).allocations)
    assert linear is not None
    assert {share.category: share.bytes for share in linear.categories}["parameter"] == (8 * 8 + 8) * 4


@pytest.mark.parametrize(
    ("techniques", "message"),
    [
        ("batch", r"batch cannot be planned: .*--max batch_size"),
        ("local_sgd", "local_sgd cannot be planned: .* one step"),
    ],
)
def test_a_technique_that_cannot_be_planned_says_why(program: Path, techniques: str, message: str) -> None:
    with pytest.raises(UnavailableError, match=message):
        planned(program, techniques)


def test_loading_is_left_out(program: Path) -> None:
    (said, _) = planned(program, "data").assumptions
    assert (said.id, said.figures) == ("plan.technique", {"technique": "data"})


@pytest.mark.parametrize(
    ("module", "raised"),
    [
        ("train", UnavailableError),
        ("perfkit.techniques.theirs", UnavailableError),
        ("perfkit.workloads.theirs", UnavailableError),
        ("perfkit.plan.theirs", ZeroDivisionError),
    ],
)
def test_an_error_of_perfkits_own_stays_what_it_is(module: str, raised: type[Exception]) -> None:
    def fails() -> float:
        return 1 / 0

    with pytest.raises(raised), name_failures(ModuleLocator(), ()):
        FunctionType(fails.__code__, {"__name__": module})()


def test_what_torch_refuses_is_the_programs_wherever_it_is_called() -> None:
    def calls(given: torch.Tensor) -> torch.Tensor:
        return given @ given

    with pytest.raises(UnavailableError, match="RuntimeError: mat1"), name_failures(ModuleLocator(), ()):
        FunctionType(calls.__code__, {"__name__": "perfkit.plan.theirs"})(torch.ones(2, 3))
