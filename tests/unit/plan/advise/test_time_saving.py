"""What a recorded step would save, simulated: on traces that can be added up by hand, and on recordings."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import parse_variants
from perfkit.plan.advise.candidates import make_candidate
from perfkit.plan.advise.time_saving import TimeEstimate, estimate_time_saved
from perfkit.plan.advise.traced_step import TracedStep, load_trace_step
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "changed_programs"
SIZE = 4096
GEMM_US, GELU_US = 10_000.0, 500.0


def step_of(path: Path, *, steps: int = 3) -> TracedStep:
    """Steps on an H100 of a product of fp32 (10 ms) and an elementwise op (0.5 ms) forward, and a product backward.

    The host launches all of it far ahead.
    """
    events: list[Event] = []
    length = 120.0
    free = 10.0
    for number in range(steps):
        begin = number * length
        for place, (phase, name, took) in enumerate(
            (("forward", "aten::mm", GEMM_US), ("forward", "aten::gelu", GELU_US), ("backward", "aten::mm", GEMM_US))
        ):
            at, id = begin + 30.0 * place, 10 * number + place + 1
            sizes = [(SIZE, SIZE), (SIZE, SIZE)] if name == "aten::mm" else [(SIZE, SIZE)]
            events += [op(name, at, 20, sizes), launch(id, at + 5), mark(phase, at - 1, 25)]
            events.append(kernel(f"{name}_kernel", id, free, took))
            free += took
        events.append(mark(f"ProfilerStep#{number}", begin, length))
    return load_trace_step(write_trace(path / "trace.json.gz", events), "h100-sxm")


def saved(step: TracedStep, technique: str) -> TimeEstimate:
    (specs,) = parse_variants(technique)
    return estimate_time_saved(step, make_candidate(specs).techniques)


def test_products_in_16_bits_take_the_ratio_of_the_peaks(tmp_path: Path) -> None:
    """H100 SXM: 66.9 TFLOP/s in fp32 against 989 on tensor cores in bf16, so 20 ms become 1.35."""
    found = saved(step_of(tmp_path), "bf16:update=nearest").saving
    assert found is not None
    assert found.low == pytest.approx(2 * GEMM_US * (1 - 66.9 / 989.4) * 1e-6, rel=0.02)
    assert found.high - found.low == pytest.approx(GELU_US / 2 * 1e-6, rel=0.05)
    assert found.bound == "interval"


def test_recomputing_costs_the_forward_pass(tmp_path: Path) -> None:
    found = saved(step_of(tmp_path), "ckpt").saving
    assert found is not None
    assert found.value == pytest.approx(-(GEMM_US + GELU_US) * 1e-6, rel=0.01)
    selective = saved(step_of(tmp_path), "ckpt:mode=selective").saving
    assert selective is not None
    assert selective.value == pytest.approx(-GELU_US * 1e-6, rel=0.05)


def test_several_are_simulated_at_once(tmp_path: Path) -> None:
    step = step_of(tmp_path)
    amp, both = saved(step, "amp").saving, saved(step, "amp+ckpt").saving
    assert amp is not None
    assert both is not None
    assert both.high == pytest.approx(amp.high - (GEMM_US + GELU_US) * 1e-6, rel=0.01)


def test_what_is_not_known_of_one_is_not_known_of_all(tmp_path: Path) -> None:
    found = saved(step_of(tmp_path), "amp+compress")
    assert found.saving is None
    assert ["compress" in line for line in found.not_known] == [True]


def test_a_loader_in_other_processes_saves_what_the_program_without_the_wait_took_less() -> None:
    """The recordings are of one program with a loader that sleeps, and without."""
    before = load_trace_step(RECORDED / "sleeping_loader.before.json.gz")
    after = load_trace_step(RECORDED / "sleeping_loader.after.json.gz")
    found = saved(before, "data:workers=1").saving
    assert found is not None
    assert found.bound == "at most"
    assert before.step_s - found.high == pytest.approx(after.step_s, rel=0.05)


def test_a_trace_without_steps_is_refused_with_what_to_do(tmp_path: Path) -> None:
    events = [op("aten::add", 0, 20, [(8, 8)]), op("aten::mul", 40, 20, [(8, 8)])]
    with pytest.raises(UsageError, match=r"trace\.json\.gz.*profiler\.step"):
        load_trace_step(write_trace(tmp_path / "trace.json.gz", events))
