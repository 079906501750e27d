"""A difference summed up by part of the step, kind of work, phase and module."""

from math import fsum

import pytest

from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.difference.groups import KIND, MODULE, PHASE, REPLACED, TIME
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.time_split import WAITING_FOR_CPU
from perfkit.cost.calls.op_call import OpClass
from perfkit_reports.palette import WORK, find_work_style
from tests.fixtures.rank_traces import rank_trace, row, split

BEFORE = (
    row("aten::mm", 0.3, module="h.0.mlp"),
    row("aten::addmm", 0.1, module="h.1.mlp", phase="backward"),
    row("aten::gelu", 0.2, module="h.0.act"),
    row("aten::add", 9.0, phase="outside steps"),
)


def of(before: tuple[OpRow, ...], after: tuple[OpRow, ...], **changes: object) -> TraceDifference:
    return compare_traces(rank_trace(label="A", ops=after, **changes), rank_trace(label="B", ops=before))


def groups(found: TraceDifference, by: str) -> dict[str, tuple[float, float]]:
    return {
        group.name: (pytest.approx(group.before_s), pytest.approx(group.after_s))
        for group in found.groups
        if group.grouping == by
    }


def test_ops_are_summed_up_by_kind_phase_and_module_without_what_ran_outside_of_steps() -> None:
    found = of(BEFORE, (row("aten::mm", 0.5, module="h.0.mlp"), row("aten::gelu", 0.1, module="h.0.act")))
    assert groups(found, KIND) == {"GEMM": (0.4, 0.5), "elementwise": (0.2, 0.1)}
    assert groups(found, PHASE) == {"forward": (0.5, 0.6), "backward": (0.1, 0.0)}
    assert groups(found, MODULE) == {"h.*.mlp": (0.4, 0.5), "h.*.act": (0.2, 0.1)}


def test_parts_of_the_step_sum_to_it() -> None:
    now = split(2.0, **{"memory-bound": 0.25, WAITING_FOR_CPU: 0.75})
    found = of(BEFORE, BEFORE, time_split=now, step_s=2.0)
    assert groups(found, TIME) == {WAITING_FOR_CPU: (0.0, 1.5), "memory-bound": (1.0, 0.5)}
    parts = [group for group in found.groups if group.grouping == TIME]
    assert fsum(group.change_s for group in parts) == pytest.approx(found.after_step_s - found.before_step_s)
    assert parts[0].name == WAITING_FOR_CPU, "the largest change comes first"


def test_compiled_code_is_a_kind_together_with_what_it_replaced() -> None:
    eager = (row("aten::gelu", 0.2), row("aten::mul", 0.1), row("aten::mm", 0.3))
    compiled = (row("triton_poi_fused_gelu_mul_0", 0.1), row("aten::mm", 0.3))
    assert groups(of(eager, compiled), KIND) == {REPLACED: (0.3, 0.1), "GEMM": (0.3, 0.3)}


def test_kernels_without_an_op_are_told_by_their_own_names() -> None:
    none = (row("(no op recorded)", 0.5),)
    kernels = (
        row("ampere_sgemm_128x64", 0.3, kind="kernel", op=""),
        row("vectorized_elementwise_kernel", 0.2, kind="kernel", op=""),
        row("linked_gemm", 0.4, kind="kernel", op="aten::mm"),
    )
    found = of((), none, kernels=kernels)
    assert groups(found, KIND) == {"GEMM": (0.0, 0.3), "elementwise": (0.0, 0.2)}
    cut = of((), none, kernels=kernels[:1])
    assert groups(cut, KIND) == {"other ops": (0.0, 0.5)}, "a table that does not hold all of them tells nothing"


def test_a_large_op_of_no_class_is_a_kind_of_its_own() -> None:
    before = (row("fbgemm::lookup", 0.1), row("lib::tiny", 0.001))
    assert groups(of(before, before), KIND) == {"fbgemm::lookup": (0.1, 0.1), "other ops": (0.001, 0.001)}


def test_a_kind_of_work_is_what_charts_call_it() -> None:
    rows = (row("my_flash_fwd_kernel", 0.3), row("fbgemm::lookup", 0.2))
    assert set(groups(of(rows, rows), KIND)) == {"attention", "fbgemm::lookup"}
    assert [find_work_style(each) for each in rows] == [WORK[OpClass.ATTENTION], WORK[OpClass.OTHER]]
