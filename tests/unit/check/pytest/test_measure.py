"""Figures of steps whose memory, ops and FLOPs can be worked out by hand, and what is left behind: nothing."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import perfkit
from perfkit.attach.loop.phase_marks import get_followed_marks
from perfkit.check.pytest.figure_parts import list_parts
from perfkit.check.pytest.measure import StepMeasurement, find_trained, measure_step
from perfkit.check.pytest.pytest_figures import build_figures
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.record.quantity import Unknown
from tests.fixtures.two_gpus import two_gpus

WIDTH, BATCH = 256, 64
WEIGHT = WIDTH * WIDTH * 4
HIDDEN = BATCH * WIDTH * 4


class Two(nn.Module):
    """Two products without a bias, a ReLU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.second = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.second(self.first(x).relu())
        return hidden


def training(model: nn.Module) -> tuple[Callable[[], None], torch.optim.Optimizer]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
    batch = torch.randn(BATCH, WIDTH)

    def step() -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, optimizer


def measured(model: nn.Module) -> StepMeasurement:
    step, optimizer = training(model)
    return measure_step(step, find_trained(model, optimizer, None), 2)


def saved(found: StepMeasurement) -> int:
    return sum(found.memory.saved.values())


def test_a_step_by_hand() -> None:
    found = measured(Two())
    # Forward 2 products; backward the gradients of both weights and of what lies between them, not of the batch.
    assert found.flops.matrix == 5 * 2 * BATCH * WIDTH * WIDTH
    calls = found.ops.count_working()
    assert calls["aten::mm"] == 5
    assert calls["aten::relu"] + calls["aten::clamp_min"] == 1
    assert calls["aten::add_"] == 2  # the update of each weight
    # What the ReLU made is kept for two products' gradients; the output itself is not, nor is the batch the step's own.
    assert HIDDEN <= saved(found) < 2 * HIDDEN
    # At the end of backward both gradients are there, in the update too.
    assert found.memory.peak - found.memory.above_start == 2 * WEIGHT
    assert found.memory.above_start >= 2 * WEIGHT
    account = found.memory.account
    assert account.peak_bytes == found.memory.peak
    assert sum(row.bytes for row in account.rows) == found.memory.peak
    assert found.graph_breaks == {}


def test_figures_are_the_same_again_beside_other_tensors() -> None:
    first = measured(Two())
    held = [torch.randn(1000) for _ in range(100)], nn.Linear(300, 300)
    again = measured(Two())
    del held
    assert (again.memory.peak, again.memory.above_start, again.memory.saved, again.ops, again.flops) == (
        first.memory.peak, first.memory.above_start, first.memory.saved, first.ops, first.flops
    )  # fmt: skip


class Hoarding(Two):
    """Keeps what lies between its products alive until the next step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        self.kept = hidden.detach() * 1
        result: torch.Tensor = self.second(hidden)
        return result


def test_an_activation_that_is_kept_alive_is_in_the_peak_and_saved() -> None:
    before, after = measured(Two()), measured(Hoarding())
    assert saved(after) - saved(before) == HIDDEN
    assert after.memory.saved["by aten::mul"] == HIDDEN
    assert after.memory.peak > before.memory.peak
    assert after.ops.count_working() - before.ops.count_working() == {"aten::mul": 1}


def test_calls_are_counted_at_the_outermost_match_and_by_phase() -> None:
    heads = torch.randn(2, 4, 32, 16, requires_grad=True)

    def step() -> None:
        functional.scaled_dot_product_attention(heads, heads, heads).sum().backward()
        heads.grad = None

    found = measure_step(step, find_trained(None, None, None), 1)
    assert found.ops.count_calls("*attention*", "forward").total() == 1
    assert found.ops.count_calls("*attention*", "backward").total() == 1
    assert found.ops.count_calls("*attention*").total() == 2
    assert found.ops.count_calls("*").total() >= 2
    assert found.ops.count_calls("*Attention*") == {}  # nodes of autograd
    assert found.memory.saved is None  # without a model nothing tells the forward pass
    with pytest.raises(UsageError, match=r"sideways.*data, forward"):
        found.ops.count_calls("*", "sideways")


def test_inference() -> None:
    model = Two().eval()
    batch = torch.randn(BATCH, WIDTH)

    @torch.no_grad()
    def step() -> None:
        model(batch)

    found = measure_step(step, find_trained(model, None, None), 1)
    assert found.memory.saved is None
    assert found.memory.peak == 2 * WEIGHT + 2 * HIDDEN  # what one product reads and writes
    assert found.flops.matrix == 2 * 2 * BATCH * WIDTH * WIDTH


def test_graph_breaks_are_counted_again_for_what_was_compiled_before() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    compiled = torch.compile(broken, backend="eager")
    batch = torch.randn(8)
    counts = [
        sum(measure_step(lambda: compiled(batch), find_trained(None, None, None), 1).graph_breaks.values())
        for _ in range(2)
    ]
    assert counts == [1, 1]


def test_nothing_stays_hooked() -> None:
    model = Two()
    step, optimizer = training(model)
    before = dict(model.__dict__), dict(model.first.__dict__), torch.autograd._engine_run_backward  # type: ignore[attr-defined]
    measure_step(step, find_trained(model, optimizer, None), 1)
    assert (model.__dict__, model.first.__dict__) == before[:2]
    assert torch.autograd._engine_run_backward is before[2]  # type: ignore[attr-defined]
    assert get_followed_marks() is None
    assert not torch._C._autograd._profiler_enabled()
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()  # type: ignore[attr-defined]
    assert not optimizer._optimizer_step_pre_hooks


def test_nothing_stays_hooked_where_the_step_fails() -> None:
    model = Two()
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        model(torch.randn(BATCH, WIDTH))
        if calls == 4:
            raise ValueError("the step's own")

    before = dict(model.__dict__)
    with pytest.raises(ValueError, match="the step's own"):
        measure_step(step, find_trained(model, None, None), 1)
    assert model.__dict__ == before
    assert get_followed_marks() is None
    assert not torch._C._autograd._profiler_enabled()
    gc.collect()
    assert measured(Two()).memory.peak > 0


def test_a_profiler_that_is_on_is_named() -> None:
    with torch.profiler.profile(), pytest.raises(PerfkitError, match="torch profiler"):
        measured(Two())


def test_a_watch_that_is_on_is_named(tmp_path) -> None:
    with perfkit.profile(tmp_path / "run", report=False), pytest.raises(PerfkitError, match=r"perfkit\.profile"):
        measured(Two())


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_without_parameters_the_device_is_the_gpu_that_was_used(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for name in ("cuda", "hip", "xpu"):
        monkeypatch.setattr(torch.version, name, "1.0" if name == kind else None)
    gpus = two_gpus(monkeypatch, kind)
    assert find_trained(None, None, None).device == torch.device("cpu")
    gpus.set_device(1)
    assert find_trained(None, None, None).device == torch.device(kind, 1)
    assert find_trained(None, None, kind).device == torch.device(kind, 1)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(UsageError, match=r"warmup=0: .* 1"):
        measure_step(lambda: None, find_trained(None, None, None), 0)
    with pytest.raises(UsageError, match="model='gpt': expected a"):
        find_trained(["gpt"], None, None)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="'meta'"):
        find_trained(None, None, "meta")


def test_the_device_is_that_of_the_parameters() -> None:
    model = Two()
    assert find_trained(model, None, None).device == torch.device("cpu")
    assert find_trained(None, torch.optim.SGD(model.parameters()), None).device == torch.device("cpu")
    assert list(find_trained([model, Two()], (), "cpu").models) == ["Two", "Two2"]


@pytest.mark.parametrize(("every", "sizes"), [(1, []), (2, [2, 2]), (4, [1, 3])])
def test_calls_that_take_turns_have_no_figures(every: int, sizes: list[int]) -> None:
    """Gradients are accumulated, and every `every`-th call updates: 2 more additions than the accumulation's 2."""
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
    batch, calls = torch.randn(BATCH, WIDTH), 0

    def step() -> None:
        nonlocal calls
        calls += 1
        model(batch).sum().backward()
        if calls % every == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    found = measure_step(step, find_trained(model, optimizer, None), every)
    assert sorted(len(kind.calls) for kind in found.ops.kinds) == sizes
    assert sorted(kind.ops["aten::add_"] for kind in found.ops.kinds) == ([2, 4] if sizes else [])
    figures = build_figures(found, list_parts(found))
    unknown = {name for name, figure in figures.items() if isinstance(figure, Unknown)} - {"kernel_count"}
    measured_ones = {"peak_allocated", "peak_above_start", "saved_activations", "flops", "op_count"}
    assert unknown == (measured_ones if sizes else set())
    if sizes:
        assert "4 x aten::add_" in figures["op_count"].reason


def test_calls_that_all_differ_are_no_kinds() -> None:
    """Sizes that depend on data: figures are those of one call, as before."""
    sizes = iter(range(1, 100))
    found = measure_step(lambda: torch.ones(next(sizes)).sum(), find_trained(None, None, None), 1)
    assert found.ops.kinds == ()
    turns = iter([1, 2] * 50)
    found = measure_step(lambda: torch.ones(next(turns)).sum(), find_trained(None, None, None), 1)
    assert len(found.ops.kinds) == 2
