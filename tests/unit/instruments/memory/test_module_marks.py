"""Ranges around the forward of modules."""

import copy
import pickle

import pytest
import torch
import torch.fx
from torch import nn
from torch.utils.checkpoint import checkpoint

from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.memory.module_marks import mark_modules, parse_module_name
from perfkit.instruments.training.trained_models import TrainedModels


class Twice(nn.Module):
    """Calls one module twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.fc(x))


class Failing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("on purpose")


def one(model: nn.Module) -> TrainedModels:
    return TrainedModels(torch.device("cpu"), {"": model}, ())


def hooks(model: nn.Module) -> int:
    return sum(
        len(getattr(module, name))
        for module in model.modules()
        for name in ("_forward_pre_hooks", "_forward_hooks", "_forward_hooks_always_called", "_backward_hooks")
    )


def marked(model: nn.Module, body) -> list[tuple[str, int]]:
    """Names of modules by the start of their range, each with the number of ranges around it."""
    with mark_modules(one(model)), AllocationProfiler(ops=False) as profiler:
        body()
    ranges = profiler.recorded.ranges
    around = [sum(o.start_ns <= r.start_ns and r.end_ns <= o.end_ns for o in ranges) - 1 for r in ranges]
    return [(parse_module_name(r.name) or r.name, depth) for r, depth in zip(ranges, around, strict=True)]


def test_every_named_module_by_its_name_but_not_the_model() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 1))
    found = marked(model, lambda: model(torch.randn(2, 3)))
    assert found == [("0", 0), ("0.0", 1), ("0.1", 1), ("1", 0)]
    assert hooks(model) == 0


def test_a_module_called_twice_is_marked_twice() -> None:
    model = nn.Sequential(Twice())
    assert marked(model, lambda: model(torch.randn(2, 3))) == [("0", 0), ("0.fc", 1), ("0.fc", 1)]


def test_a_module_within_itself() -> None:
    class Recursive(nn.Module):
        def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
            return self(x, depth - 1) if depth else x * 2

    model = nn.ModuleDict({"r": Recursive()})
    assert marked(model, lambda: model["r"](torch.randn(2))) == [("r", 0), ("r", 1), ("r", 2)]


def test_recomputation_is_marked_again() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))

    def body() -> None:
        checkpoint(model[0], torch.randn(2, 3, requires_grad=True), use_reentrant=False).sum().backward()

    assert [name for name, _ in marked(model, body)] == ["0", "0"]


def test_a_forward_that_raises_ends_its_range() -> None:
    model = nn.Sequential(nn.Sequential(Failing()), nn.Linear(3, 3))

    def body() -> None:
        with pytest.raises(ValueError, match="on purpose"):
            model(torch.randn(2, 3))
        model[1](torch.randn(2, 3))

    assert marked(model, body) == [("0", 0), ("0.0", 1), ("1", 0)]


def test_hooks_are_removed_when_the_body_raises() -> None:
    model = nn.Sequential(Failing())
    with pytest.raises(ValueError, match="on purpose"), mark_modules(one(model)):
        model(torch.randn(2, 3))
    assert hooks(model) == 0


def test_a_forward_that_began_before() -> None:
    """As when a step is recorded from within a module: there is no range to end."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.marks = mark_modules(one(model))
            self.marks.__enter__()
            return self.inner(x)

    model = nn.Sequential(Outer())
    with AllocationProfiler(ops=False) as profiler:
        model(torch.randn(2, 3))
    model[0].marks.__exit__(None, None, None)
    assert [parse_module_name(each.name) for each in profiler.recorded.ranges] == ["0.inner"]
    assert hooks(model) == 0


def test_names_of_other_ranges() -> None:
    assert parse_module_name("perfkit::module::h.0") == "h.0"
    assert parse_module_name("perfkit::forward") is None
    assert parse_module_name("h.0") is None


def test_a_compiled_model_is_not_compiled_again() -> None:
    counters = torch._dynamo.utils.counters
    model = nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 1))
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(2, 3)
    compiled(x).sum().backward()
    before = {name: dict(counts) for name, counts in counters.items()}
    assert before["stats"]["unique_graphs"] == 1
    for each in (compiled, model):
        found = marked(each, lambda: compiled(x).sum().backward())
        assert found == [], "compiled code runs as it was compiled"
    compiled(x).sum().backward()
    assert {name: dict(counts) for name, counts in counters.items()} == before


def test_modules_that_were_compiled_in_place_are_marked_around() -> None:
    counters = torch._dynamo.utils.counters
    model = nn.Sequential(Twice(), nn.Linear(3, 1))
    before = counters["stats"]["unique_graphs"]
    model[0].compile(backend="aot_eager")
    x = torch.randn(2, 3)
    model(x).sum().backward()
    compiled = counters["stats"]["unique_graphs"]
    assert compiled > before
    found = [name for name, _ in marked(model, lambda: model(x).sum().backward())]
    assert counters["stats"]["unique_graphs"] == compiled
    assert found == ["0", "1"]


def test_copies_and_pickles_of_marked_modules_are_as_ever() -> None:
    model = nn.Sequential(Twice(), nn.Linear(3, 1))
    plain = pickle.dumps(model)
    with mark_modules(one(model)):
        assert pickle.dumps(model) == plain
        copies = [copy.deepcopy(model), copy.copy(model), pickle.loads(plain)]
        for each in copies:
            assert "_compiled_call_impl" not in each.__dict__
    assert pickle.dumps(model) == plain
    assert all("_compiled_call_impl" not in module.__dict__ for module in model.modules())


def test_modules_are_scripted_and_exported_while_they_are_marked() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.randn(2, 3)
    with mark_modules(one(model)):
        scripted = torch.jit.script(model)
        graph = torch.fx.symbolic_trace(model)
    assert torch.equal(scripted(x), model(x))
    assert torch.equal(pickle.loads(pickle.dumps(graph))(x), model(x))
