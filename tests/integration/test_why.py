"""Regressions planted in a real workload, measured on this machine's CPU: the suspects must name them."""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from perfkit.analysis.pipeline.suite_analysis import inspect_suite
from perfkit.check.judge.result import ChangeExplanation
from perfkit.check.why.explanation import explain_variant
from perfkit.check.why.side import SideAnalysis, observe_variant
from perfkit.core.spec import Schedule, WorkloadSpec, parse_variants
from perfkit.measure.bench import run_bench
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import StoredSuite, read_suite

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled_once")]

PLANTED = Path(__file__).parent.parent / "fixtures" / "workloads" / "planted.py"

Measure = Callable[[str, str], StoredSuite]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """The suite of one variant of the workload with a change; measured once."""

    @cache
    def measured(change: str, variant: str) -> StoredSuite:
        folder = tmp_path_factory.mktemp("side") / "suite"
        request = BenchRequest(
            workload=WorkloadSpec(name=f"{PLANTED}:build", params={"change": change} if change else {}),
            variants=tuple(parse_variants(variant)),
            device="cpu",
            device_count=0,
            cores=1,
            threads=1,
            rounds=0,
            schedule=Schedule(warmup=1, max_warmup=2, timed=2, memory=3, trace=3, parity=1),
        )
        run_bench(request, folder, command="test", ceilings=None, progress=lambda event: None)
        return read_suite(folder)

    return measured


def found(measure: Measure, change: str, variant: str = "baseline") -> ChangeExplanation:
    return explain_variant(seen(measure("", variant), variant), seen(measure(change, variant), variant))


def seen(suite: StoredSuite, variant: str) -> SideAnalysis:
    examined = inspect_suite(suite, by_step=True)
    (row,) = (each for each in examined.analysis.variants if each.name == variant)
    return observe_variant(row, *examined.of[variant])


def suspect(found: ChangeExplanation, *parts: str) -> bool:
    """Whether one sentence has all the parts."""
    return any(all(part in text for part in parts) for text in found.suspects)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("extra_matmul", ("in blocks.1: ", "aten::mm ", "MFLOP more")),
        pytest.param(
            "math_attention",
            ("in blocks.1.attn: ", "aten::bmm ", "aten::_scaled_dot_product_flash_attention"),
            marks=pytest.mark.nightly,
        ),
        pytest.param("contiguous", ("in blocks.1", "aten::clone ", "2 -> 4"), marks=pytest.mark.nightly),
        ("double", ("aten::_log_softmax", "-> fp64[")),
        ("kept", ("128 KiB", "aten::mul in blocks.1")),
        ("kept", ("blocks.1 ", "(activation)", "aten::mul")),
        ("kept", ("in blocks.1: aten::mul ", "(1 call per step)")),
    ],
)
def test_a_planted_regression_is_named_with_its_op_and_module(
    measure: Measure, change: str, parts: tuple[str, ...]
) -> None:
    result = found(measure, change)
    assert suspect(result, *parts), result.suspects


def test_the_same_code_has_no_suspect_that_is_counted(measure: Measure) -> None:
    again = found(measure, "nothing")
    assert not [text for text in again.suspects if "in each of" not in text]
    assert {row.evidence for row in again.time.changes} <= {"noise", "slower", "faster"}  # type: ignore[union-attr]
    assert all(abs(each.after - each.before) < 1024 for each in again.memory)


@pytest.mark.nightly
@pytest.mark.parametrize(("change", "line"), [("print", 'print("hidden")'), ("item", ".item()")])
def test_a_broken_graph_is_named_with_the_line_that_breaks_it(measure: Measure, change: str, line: str) -> None:
    result = found(measure, change, "compile")
    assert "1 more graph break" in result.suspects[0], result.suspects
    assert "planted.py" in result.suspects[0]
    assert line in result.suspects[0]
    assert suspect(result, "compiled graph ", "->")
    assert {each.kind for each in result.compiled} >= {"graph", "graph break"}


def test_what_a_side_lacks_is_said(measure: Measure) -> None:
    side = measure("", "baseline")
    (run,) = side.runs
    bare = dataclasses.replace(
        run, ranks=tuple(dataclasses.replace(each, trace=None, memory=None) for each in run.ranks)
    )
    result = explain_variant(seen(dataclasses.replace(side, runs=(bare,)), "baseline"), seen(side, "baseline"))
    assert result.time is None
    assert result.suspects == ()
    assert [note.id for note in result.notes[:2]] == ["why.no_trace", "why.no_memory"]
