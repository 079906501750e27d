"""torch.compile for real, once: it takes most of a minute on two cores."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.compile_facts import collect_compile_facts, collect_compile_notes
from perfkit.techniques.engines.compile import Compile, _compile_module
from perfkit.workloads.workload import Workload, make_adamw
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import applied, batches, new_state, relative_difference, train


class Branchy(nn.Module):
    """A block in which the graph breaks: a number is read back from a tensor to decide what to do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x).relu()
        return x * 2 if x.sum().item() > 0 else x


class Small(nn.Module):
    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[0](x)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(x)).sin().cos())


def workload(block: type[nn.Module]) -> Workload:
    return Workload(
        name="small",
        unit="samples",
        units_per_batch=64,
        build_model=lambda: Small(block),
        build_optimizer=make_adamw,
        make_batch=lambda generator: {"x": torch.randn(64, 32, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        blocks=lambda _model: ("blocks.0",),
    )


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["compile", pytest.param("compile:scope=block+ckpt", marks=pytest.mark.nightly)])
def test_compiled_losses_claims_and_facts(variant):
    plain = train(applied("baseline", new_state(workload(Mlp))).state)
    state = new_state(workload(Mlp))
    reference = reference_facts(state)
    made = applied(variant, state)
    assert relative_difference(train(made.state), plain) <= 1e-5
    facts = measured_facts(made.state, reference) | collect_compile_facts()
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    assert [text for verdict, text in check_claims(claims, made.state, facts, {}) if not verdict] == []
    made.state.close()
    assert facts["graphs"] == 1
    assert facts["graph_breaks"] == 0
    assert facts["compile_s"] > 0
    assert facts["compile_cache_hits"] + facts["compile_cache_misses"] >= 1


@pytest.mark.nightly
def test_graph_breaks_and_recompilations_are_counted_with_their_reasons():
    made = applied("compile", new_state(workload(Branchy)))
    train(made.state, steps=1)
    facts, notes = collect_compile_facts(), collect_compile_notes()
    assert facts["graph_breaks"] >= 1
    assert "Tensor.item() call" in notes["graph_breaks"]
    (batch,) = batches(made.state, 0)
    made.state.loss({"x": batch["x"][:7]})
    assert collect_compile_facts()["recompiles"] > facts["recompiles"]
    assert "size mismatch" in collect_compile_notes()["recompiles"]
    made.state.close()


def test_a_process_that_compiled_nothing_has_no_facts():
    torch._dynamo.utils.counters.clear()
    assert collect_compile_facts() == {}


@pytest.mark.parametrize(
    ("unsupported", "reason"),
    [
        ({}, "torch.compile leaves torch's own modules (nn.LSTM, nn.GRU) unchanged"),
        ({"Attempted to wrap RNN, GRU, or LSTM\n  Explanation: ...": 1}, "Attempted to wrap RNN, GRU, or LSTM"),
    ],
)
def test_where_compiling_was_asked_for_no_graph_is_a_fact_with_its_reason(unsupported, reason):
    counters = torch._dynamo.utils.counters
    counters.clear()
    counters["frames"]["total"] = len(unsupported)
    counters["unimplemented"].update(unsupported)
    assert collect_compile_facts(asked=True)["graphs"] == 0.0
    assert collect_compile_notes()["graphs"] == reason
    counters.clear()


def test_cuda_graphs_need_a_cuda_device():
    with pytest.raises(UnavailableError, match=r"^mode=\S+ .*CUDA"):
        applied("compile:mode=reduce-overhead")


def test_a_block_scope_needs_blocks():
    state = new_state(Workload(**{**vars(workload(Mlp)), "blocks": lambda _model: ()}))
    with pytest.raises(UnavailableError, match="names no blocks; use scope=model"):
        applied("compile:scope=block", state)


def test_a_model_that_is_torchs_own_container_is_compiled() -> None:
    """`Sequential.compile` compiles nothing, without a word."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    _compile_module(model, backend="eager")
    model(torch.randn(2, 4))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert set(model.state_dict()) == {"0.weight", "0.bias"}
    torch.compiler.reset()


@pytest.mark.parametrize(("asked", "does", "holds"), [(True, True, True), (True, False, False), (False, False, True)])
def test_dynamic_shapes_that_are_not_are_found_out(asked: bool, does: bool, holds: bool) -> None:
    state = new_state(workload(Mlp))
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    _compile_module(state.model, backend="eager", dynamic=does, fullgraph=True)
    train(state := applied("baseline", state).state, steps=1)
    facts = collect_compile_facts()
    claims = [claim for claim in Compile(dynamic=asked, fullgraph=True).claims(state) if "op_calls" not in claim.fact]
    assert [each for each, _ in check_claims(claims, state, facts, {})] == [True, True, holds]
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("mode", "reason"), [("reduce-overhead", "CUDA graphs"), ("max-autotune", ""), ("default", "")]
)
def test_modes_that_cannot_act_on_a_cpu_say_why(mode, reason):
    technique = Compile(mode=mode)
    assert reason in (technique.unavailable(torch.device("cpu")) or "")
    assert (technique.unavailable(torch.device("cpu")) is None) == (not reason)
    assert technique.unavailable(torch.device("cuda")) is None


def test_what_a_cpu_may_choose_is_said():
    notes = applied("compile:mode=max-autotune", new_state(workload(Mlp))).state.fact_notes
    assert "matmuls" in notes["autotuned"]
    assert "autotuned" not in applied("compile", new_state(workload(Mlp))).state.fact_notes


def test_that_kernels_were_chosen_is_found_by_inductors_counter(monkeypatch):
    """`benchmark` in torch/_inductor/select_algorithm.py counts each choice that it has timed."""
    state = new_state(workload(Mlp))
    state.build_optimizers()
    (claim,) = [each for each in Compile(mode="max-autotune").claims(state) if each.fact == "autotuned"]
    counters = {name: Counter() for name in ("frames", "stats", "graph_break", "aot_autograd", "inductor")}
    counters["stats"]["unique_graphs"] = 1
    monkeypatch.setattr(torch._dynamo.utils, "counters", counters)
    for times, acts in ((0, False), (3, True)):
        counters["inductor"]["select_algorithm_autotune"] = times
        ((holds, _),) = check_claims([claim], state, collect_compile_facts(), {})
        assert holds is acts
    assert not any(each.fact == "autotuned" for each in Compile().claims(state))
