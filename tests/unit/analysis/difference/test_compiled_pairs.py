from math import fsum

import pytest

from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.model.difference import ChangeRow
from perfkit.analysis.model.step import OpRow
from tests.fixtures.rank_traces import rank_trace, row

FORWARD = "triton_poi_fused_add_gelu_3"
BACKWARD = "triton_red_fused_gelu_backward_sum_5"


def changes(before: list[OpRow], after: list[OpRow]) -> list[ChangeRow]:
    found = compare_traces(rank_trace(label="A", ops=tuple(after)), rank_trace(label="B", ops=tuple(before)))
    for rows, side in ((before, "before_s"), (after, "after_s")):
        assert fsum(getattr(change, side) or 0.0 for change in found.changes) == pytest.approx(
            fsum(each.seconds for each in rows)
        )
    return list(found.changes)


def compiled(before: list[OpRow], after: list[OpRow]) -> list[ChangeRow]:
    return [change for change in changes(before, after) if change.compiled_names]


EAGER = [row("aten::add", 0.1, calls=4.0), row("aten::gelu", 0.3, calls=2.0), row("aten::cumsum", 0.05)]


def test_a_generated_kernel_stands_against_the_ops_that_it_names() -> None:
    every = changes(EAGER, [row(FORWARD, 0.15, calls=2.0)])
    (made,) = [change for change in every if change.compiled_names]
    assert (made.name, made.phase, made.before_s, made.after_s) == ("compiled code", "forward", 0.4, 0.15)
    assert (made.compiled_names, made.replaced_ops) == ((FORWARD,), ("aten::gelu", "aten::add"))
    assert (made.before_calls, made.after_calls) == (6.0, 2.0)
    # What no name lists is gone.
    assert [(change.name, change.after_s) for change in every if not change.compiled_names] == [("aten::cumsum", None)]


def test_from_compiled_code_to_eager_is_the_same_the_other_way_round() -> None:
    (made,) = compiled([row(FORWARD, 0.15)], EAGER)
    assert (made.before_s, made.after_s, made.replaced_ops) == (0.15, 0.4, ("aten::gelu", "aten::add"))


def test_phases_are_apart_and_kernels_with_an_op_in_common_together() -> None:
    before = [*EAGER, row("aten::gelu_backward", 0.2, phase="backward"), row("aten::sum", 0.1, phase="backward")]
    norm = row("triton_per_fused_add_native_layer_norm_7", 0.1)
    after = [row(FORWARD, 0.1), norm, row(BACKWARD, 0.1, phase="backward")]
    made = {change.phase: change for change in compiled(before, after)}
    assert made["forward"].compiled_names == (FORWARD, "triton_per_fused_add_native_layer_norm_7")
    assert made["backward"].replaced_ops == ("aten::gelu_backward", "aten::sum")


def test_kernels_of_replayed_graphs_have_no_phase_and_stand_for_ops_of_any() -> None:
    before = [*EAGER, row("aten::gelu_backward", 0.2, phase="backward")]
    after = [row(FORWARD, 0.1, phase=""), row("triton_poi_fused_gelu_backward_9", 0.15, phase="")]
    assert [(made.replaced_ops, made.before_s, made.after_s) for made in compiled(before, after)] == [
        (("aten::gelu", "aten::add"), 0.4, 0.1),
        (("aten::gelu_backward",), 0.2, 0.15),
    ]


def test_kernels_without_an_op_in_common_are_compared_apart() -> None:
    after = [row("triton_poi_fused_add_1", 0.01), row("triton_poi_fused_gelu_2", 0.02)]
    assert [(made.replaced_ops, made.before_s, made.after_s) for made in compiled(EAGER, after)] == [
        (("aten::gelu",), 0.3, 0.02),
        (("aten::add",), 0.1, 0.01),
    ]


def test_an_op_of_which_some_calls_are_left_counts_with_those() -> None:
    (made,) = compiled(EAGER, [row(FORWARD, 0.15), row("aten::add", 0.02, calls=1.0)])
    assert (made.before_s, made.after_s) == (0.4, pytest.approx(0.17))
    more = changes(EAGER, [row(FORWARD, 0.15), row("aten::add", 0.12, calls=5.0)])
    assert {change.name: change.after_s for change in more}["aten::add"] == 0.12  # called more often: not replaced


def test_a_product_of_which_the_bias_is_fused_takes_what_multiplies_now_along() -> None:
    before = [row("aten::addmm", 0.5), row("aten::relu", 0.1)]
    after = [row("aten::mm", 0.4), row("triton_poi_fused_addmm_relu_0", 0.05)]
    (made,) = compiled(before, after)
    assert (made.before_s, made.after_s) == (0.6, pytest.approx(0.45))
    assert made.replaced_ops == ("aten::addmm", "aten::mm", "aten::relu")


def test_a_run_whose_kernels_are_not_told_stands_against_all_that_is_gone_in_its_phase() -> None:
    region = "## Call CompiledFxGraph fabc ##"
    before = [*EAGER, row("aten::mm", 0.5, phase="backward")]
    every = changes(before, [row(region, 0.2)])
    (made,) = [change for change in every if change.compiled_names]
    assert (made.compiled_names, made.replaced_ops) == ((region,), ("aten::gelu", "aten::add", "aten::cumsum"))
    assert [change.name for change in every if not change.compiled_names] == ["aten::mm"]
    (made,) = compiled([row("aten::addmm", 0.5)], [row(region, 0.1), row("aten::mm", 0.3)])
    assert (made.before_s, made.after_s) == (0.5, pytest.approx(0.4))


def test_compiled_code_that_stands_for_nothing_is_new() -> None:
    (new,) = changes([], [row(FORWARD, 0.1)])
    assert (new.name, new.before_s, new.compiled_names) == (FORWARD, None, ())


def test_kernels_that_were_fused_otherwise_are_compared_with_each_other() -> None:
    (made,) = compiled([row(FORWARD, 0.2)], [row("triton_poi_fused_gelu_mul_4", 0.1)])
    assert (made.before_s, made.after_s, made.replaced_ops) == (0.2, 0.1, ())
