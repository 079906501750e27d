"""Real recordings of a tiny model on a CPU: what each block is told to be, by sizes that no two kinds share."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils.checkpoint import checkpoint

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.allocations import (
    AUTOCAST,
    BUFFER,
    GRADIENT,
    NONE,
    OPTIMIZER_STATE,
    PARAMETER,
    RECOMPUTED,
    Allocations,
    FailedRequest,
)
from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.memory.failed_request import parse_failed_request
from perfkit.instruments.memory.memory_recording import record_failing_step, record_memory
from perfkit.instruments.recording import drive_recording
from perfkit.instruments.training.tensors import list_known_blocks
from perfkit.instruments.training.trained_models import get_trained_models
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.base.state import TrainState, World
from perfkit.workloads.workload import Workload

CPU = torch.device("cpu")
BATCH, WIDE, INNER, OUT = 7, 33, 17, 5
FC = WIDE * INNER * 4  # bytes of the first layer's weight, hence of its gradient and of each of its moments


class Net(nn.Module):
    """Two layers, a buffer, and a module that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDE, INNER)
        self.again = nn.Linear(INNER, INNER)
        self.head = nn.Linear(INNER, OUT)
        self.register_buffer("scale", torch.ones(INNER))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x))

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(self.again(torch.relu(self.fc(x)) * self.scale))


class Checkpointed(Net):
    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(super().inner, x, use_reentrant=False)


def autocast_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return plain_loss(model, batch)


def plain_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(batch["x"]).float().square().mean()


class Training:
    """A training state as sessions have it, with its step."""

    def __init__(
        self, model: nn.Module, *, loss=plain_loss, optimizer=torch.optim.AdamW, accumulation: int = 1
    ) -> None:
        workload = Workload(
            name="tiny",
            unit="samples",
            units_per_batch=BATCH,
            build_model=lambda: model,
            build_optimizer=lambda model: optimizer(model.parameters(), lr=1e-3),
            make_batch=lambda generator: {},
            loss=loss,
        )
        self.model = model
        self.state = TrainState(
            workload=workload,
            model=model,
            device=CPU,
            world=World(),
            compute_dtype="fp32",
        )
        self.state.build_optimizers()
        self.batches = [{"x": torch.randn(BATCH, WIDE)} for _ in range(accumulation)]
        self.steps: list[int] = []

    def step(self, index: int) -> None:
        self.steps.append(index)
        train_step(self.state, self.batches, index)

    def record(self, count: int = 2, step: Callable[[int], None] | None = None) -> Allocations:
        recording = record_memory(
            count,
            get_trained_models(self.state),
            blocks=lambda: list_known_blocks(self.state),
            harness=frozenset(batch["x"].data_ptr() for batch in self.batches),
        )
        return drive_recording(recording, step or self.step, 3)


def told(found: Allocations, step: int, size: int) -> list[tuple[str, str, str, str]]:
    """Phase, module, category and shape of the allocations of a size in a step."""
    return [
        (
            "" if found.phase[event] == NONE else PHASES[found.phase[event]],
            *(found.get_text(column, event) for column in (found.module, found.category, found.shape)),
        )
        for event in range(len(found))
        if found.step[event] == step and found.size[event] == size
    ]


def known(found: Allocations) -> Counter[str]:
    """Bytes known at the start, by category."""
    sums: Counter[str] = Counter()
    for block in found.known:
        sums[block.category] += block.size_bytes
    return sums


def parameters(model: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def undone() -> bool:
    return not torch._C._autograd._profiler_enabled() and not _global_optimizer_pre_hooks


def test_an_eager_model() -> None:
    training = Training(Net())
    training.step(0)
    found = training.record()
    assert training.steps == [0, 3, 4, 5, 6, 7], "one before those that count, one apart, one to tell what blocks are"
    assert sorted(set(found.step.tolist()) - {NONE}) == [4, 5]
    start = known(found)
    assert start[PARAMETER] == parameters(training.model)
    # Two moments of each parameter, and a count of steps of 4 bytes for each of the six.
    assert start[OPTIMIZER_STATE] == 2 * parameters(training.model) + 6 * 4
    assert start[BUFFER] == INNER * 4
    assert start[GRADIENT] == 0
    for step in (4, 5):
        assert told(found, step, FC).count(("backward", "fc", GRADIENT, f"[{INNER}, {WIDE}]")) == 1
        outputs = told(found, step, BATCH * INNER * 4)
        # fc, again twice; relu and the product with the buffer are of no module
        assert [row[1] for row in outputs if row[0] == "forward"] == ["fc", "", "", "again", "again"]
        assert ("forward", "head", "", f"[{BATCH}, {OUT}]") in told(found, step, BATCH * OUT * 4)
    assert undone()


def test_the_books_of_an_eager_model_balance() -> None:
    training = Training(Net())
    training.step(0)
    balance = build_memory_account(training.record())
    shares = {share.category: share.bytes for share in balance.categories}
    assert sum(shares.values()) == balance.peak_bytes
    assert shares[PARAMETER] == parameters(training.model)
    assert len(balance.step_peaks) == 2
    assert balance.step_peaks[0] == balance.step_peaks[1]
    assert balance.growth == ()


def test_lines_are_the_users() -> None:
    training = Training(Net())
    training.step(0)
    found = training.record()
    relu = [
        e
        for e in range(len(found))
        if found.get_text(found.op, e) in ("aten::relu", "aten::clamp_min") and found.size[e] > 0
    ]
    assert relu
    assert all(found.get_text(found.line, event).endswith(" inner") for event in relu)
    assert all(found.get_text(found.line, event).startswith("memory/test_memory_recording.py:") for event in relu)


def test_copies_of_autocast() -> None:
    training = Training(Net(), loss=autocast_loss)
    training.step(0)
    found = training.record()
    for step in (4, 5):
        copies = [row for row in told(found, step, FC // 2) if row[2] == AUTOCAST]
        assert copies == [("forward", "fc", AUTOCAST, f"[{INNER}, {WIDE}]")]
        # `again` is called twice, but its copy is kept.
        assert [row[1] for row in told(found, step, INNER * INNER * 2) if row[2] == AUTOCAST] == ["again"]
        assert ("backward", "fc", GRADIENT, f"[{INNER}, {WIDE}]") in told(found, step, FC)


def test_what_checkpointing_computes_again() -> None:
    training = Training(Checkpointed())
    training.step(0)
    found = training.record()
    for step in (4, 5):
        again = [row[:2] for row in told(found, step, BATCH * INNER * 4) if row[2] == RECOMPUTED]
        assert ("backward", "fc") in again
        assert {phase for phase, _ in again} == {"backward"}
        assert not any(row[2] == RECOMPUTED for row in told(found, step, BATCH * OUT * 4)), "the head is outside of it"


def test_microbatches() -> None:
    training = Training(Net(), accumulation=3)
    training.step(0)
    found = training.record()
    for step in (4, 5):
        assert len({int(found.visit[e]) for e in range(len(found)) if found.step[e] == step}) >= 3 * 3
        rows = [row for row in told(found, step, FC) if row[0] == "backward"]
        # The first backward's product is kept; those of the others are added to it.
        assert rows.count(("backward", "fc", GRADIENT, f"[{INNER}, {WIDE}]")) == 1
        outputs = [row[1] for row in told(found, step, BATCH * OUT * 4) if row[0] == "forward"]
        assert outputs.count("head") == 3


def test_optimizer_state_that_appears_in_the_step_before() -> None:
    training = Training(Net())
    found = training.record()
    assert training.steps == [3, 4, 5, 6, 7]
    assert known(found)[OPTIMIZER_STATE] == 2 * parameters(training.model) + 6 * 4
    assert set(found.step[found.size > 0].tolist()) == {4, 5}, "nothing survives the first step that is not known"


def test_gradients_that_are_kept() -> None:
    training = Training(Net())

    def step(index: int) -> None:
        train_step(training.state, training.batches, index)
        for parameter in training.model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    training.state.model.zero_grad(set_to_none=False)
    step(0)
    found = training.record(step=step)
    assert known(found)[GRADIENT] == parameters(training.model)


def test_gradients_that_stay_where_they_are() -> None:
    training = Training(Net(), optimizer=torch.optim.SGD)

    class Keeping(torch.optim.SGD):
        def zero_grad(self, set_to_none: bool = True) -> None:
            super().zero_grad(set_to_none=False)

    training.state.optimizers = {"": Keeping(training.model.parameters(), lr=1e-3)}
    training.step(0)
    found = training.record()
    assert known(found)[GRADIENT] == parameters(training.model)
    assert known(found)[PARAMETER] == parameters(training.model)
    for step in (4, 5):
        assert not any(row[2] == GRADIENT for row in told(found, step, FC)), "the product is added to what is there"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.nightly)])
def test_a_compiled_model_is_recorded_without_compiling_again(backend: str) -> None:
    model = Net()
    training = Training(model)
    training.state.model = torch.compile(model, backend=backend)
    training.step(0)
    training.step(1)
    counters = torch._dynamo.utils.counters
    before = {name: dict(counters[name]) for name in ("stats", "frames")}
    found = training.record()
    assert {name: dict(counters[name]) for name in ("stats", "frames")} == before
    assert known(found)[PARAMETER] == parameters(model)
    for step in (4, 5):
        gradients = [row for row in told(found, step, FC) if row[2] == GRADIENT]
        assert gradients == [("backward", "fc", GRADIENT, f"[{INNER}, {WIDE}]")]


@pytest.mark.parametrize("failing", [3, 4, 6, 7])
def test_an_exception_in_the_middle_of_a_step_undoes_everything(failing: int) -> None:
    training = Training(Net())

    def step(index: int) -> None:
        if index == failing:
            raise ValueError("on purpose")
        training.step(index)

    with pytest.raises(ValueError, match="on purpose"):
        training.record(step=step)
    assert undone()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in training.model.modules())
    training.step(8)
    assert len(training.record())


def failing_step(training: Training, step: Callable[[], None]) -> Allocations:
    return record_failing_step(
        step,
        get_trained_models(training.state),
        blocks=lambda: list_known_blocks(training.state),
        failure=lambda error: parse_failed_request(error) if "allocate" in str(error) else None,
    )


class Greedy(nn.Module):
    """Asks for more than there is, in forward or in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.when = ""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.when == "forward":
            torch.empty(2**60, dtype=torch.uint8)
        if self.when == "backward":
            x.register_hook(lambda _: torch.empty(2**60, dtype=torch.uint8))
        return x * 1


@pytest.mark.parametrize("when", ["forward", "backward"])
def test_a_step_that_runs_out_of_memory(when: str) -> None:
    net = Net()
    net.add_module("greedy", Greedy())
    net.inner = lambda x: net.greedy(net.fc(x))
    training = Training(net)
    training.step(0)
    net.greedy.when = when
    found = failing_step(training, lambda: training.step(1))
    assert (found.failed.bytes, found.failed.phase, found.failed.step) == (2**60, when, 1)
    assert found.failed.op == ("aten::empty" if when == "forward" else "AddmmBackward0")
    assert found.failed.line.startswith("memory/test_memory_recording.py:")
    assert found.failed.line.endswith(" forward" if when == "forward" else " <lambda>")
    assert found.failed.module == ("greedy" if when == "forward" else "")
    assert set(found.step.tolist()) == {1}
    assert known(found)[OPTIMIZER_STATE] == 2 * parameters(net) - 2 * parameters(net.again) + 4 * 4
    balance = build_memory_account(found)
    assert balance.failed_request == found.failed
    assert balance.peak_bytes == sum(share.bytes for share in balance.categories)
    assert undone()


def test_other_errors_of_a_failing_step_are_raised_on() -> None:
    training = Training(Net())

    def step() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        failing_step(training, step)
    assert undone()


def test_a_step_that_succeeds_after_all_has_no_failed_request() -> None:
    training = Training(Net())
    training.step(0)
    found = failing_step(training, lambda: training.step(1))
    assert found.failed is None
    assert len(found) > 0
    nothing = failing_step(training, lambda: None)
    assert (len(nothing), nothing.failed) == (0, None)
    assert known(nothing)[PARAMETER] == parameters(training.model)


def test_a_step_that_fails_before_any_allocation() -> None:
    training = Training(Net())
    training.step(0)

    def step() -> None:
        raise MemoryError("Unable to allocate 7.45 GiB for an array")

    found = failing_step(training, step)
    assert found.failed.line.endswith(" step")
    message = "Unable to allocate 7.45 GiB for an array"
    assert found.failed == FailedRequest(bytes=round(7.45 * 2**30), message=message, line=found.failed.line)
    assert len(found) == 0
