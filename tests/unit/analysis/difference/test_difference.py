from math import fsum

import pytest

from perfkit.analysis.difference import difference as trace_difference
from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.trace import PrecisionFlops
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import rank_trace, row


def of(before: list, after: list, **changes: object) -> TraceDifference:  # type: ignore[type-arg]
    return compare_traces(rank_trace(label="A", ops=tuple(after), **changes), rank_trace(label="B", ops=tuple(before)))


def test_ops_are_matched_and_the_largest_change_comes_first() -> None:
    found = of(
        [row("aten::mm", 0.3, calls=2.0, flops=6.0, bytes=1.0), row("aten::add", 0.1), row("aten::mul", 0.2)],
        [row("aten::mm", 0.1, calls=2.0, flops=6.0, bytes=1.0), row("aten::add", 0.15), row("aten::mul", 0.2)],
    )
    assert (found.before, found.after) == ("B", "A")
    assert [change.name for change in found.changes] == ["aten::mm", "aten::add", "aten::mul"]
    first = found.changes[0]
    assert (first.before_s, first.after_s, first.before_calls, first.after_calls) == (0.3, 0.1, 2.0, 2.0)
    assert (first.before_flops, first.after_flops, first.before_bytes) == (6.0, 6.0, 1.0)
    assert found.notes == ()


def test_what_occurs_on_one_side_only_is_none_on_the_other() -> None:
    found = of([row("aten::softmax", 0.3)], [row("aten::sdpa", 0.1)])
    gone, new = found.changes
    assert (gone.name, gone.before_s, gone.after_s, gone.after_calls) == ("aten::softmax", 0.3, None, None)
    assert (new.name, new.before_s, new.after_s) == ("aten::sdpa", None, 0.1)


def test_the_same_op_in_other_modules_and_phases_is_kept_apart() -> None:
    before = [
        row("aten::mm", 0.1, module="m/a"),
        row("aten::mm", 0.2, module="m/b"),
        row("aten::mm", 0.3, module="m/b", phase="backward"),
    ]
    after = [row("aten::mm", 0.1, module="m/a"), row("aten::mm", 0.1, module="m/b")]
    found = {(change.module, change.phase): change for change in of(before, after).changes}
    assert (found["m/a", "forward"].before_s, found["m/a", "forward"].after_s) == (0.1, 0.1)
    assert (found["m/b", "forward"].before_s, found["m/b", "forward"].after_s) == (0.2, 0.1)
    assert found["m/b", "backward"].after_s is None


def test_other_shapes_and_renamed_modules_match_after_those_that_are_equal() -> None:
    before = [row("aten::mm", 0.1, shapes="fp32[8,8]"), row("aten::add", 0.2, module="Model/Linear")]
    after = [row("aten::mm", 0.4, shapes="fp32[16,8]"), row("aten::add", 0.2, module="Optimized/Model/Linear")]
    found = of(before, after)
    mm, add = found.changes
    assert (mm.shapes, mm.before_s, mm.after_s) == ("fp32[8,8] -> fp32[16,8]", 0.1, 0.4)
    assert (add.module, add.before_s, add.after_s) == ("Model/Linear -> Optimized/Model/Linear", 0.2, 0.2)
    assert [note.id for note in found.notes] == ["difference.shapes"]
    assert found.notes[0].figures["share"] == pytest.approx(0.4 / 0.6)


def test_rows_and_rests_sum_to_the_time_of_all_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_difference, "MOST_CHANGES", 5)
    before = [row(f"op{index}", 0.01 * index) for index in range(20)]
    after = [row(f"op{index}", 0.013 * index) for index in range(3, 25)]
    found = of(before, after)
    assert len(found.changes) == 5
    total_before = fsum(change.before_s or 0.0 for change in found.changes) + found.rest_before_s
    total_after = fsum(change.after_s or 0.0 for change in found.changes) + found.rest_after_s
    assert total_before == pytest.approx(fsum(each.seconds for each in before), rel=1e-12)
    assert total_after == pytest.approx(fsum(each.seconds for each in after), rel=1e-12)


def test_a_cost_that_is_not_known_of_all_calls_is_not_known() -> None:
    found = of(
        [row("aten::mm", 0.1, flops=1.0), row("aten::mm", 0.1, flops=None, dtype="bf16")], [row("aten::mm", 0.1)]
    )
    (change,) = found.changes
    assert change.before_s == pytest.approx(0.2)
    assert change.before_flops is None


def test_what_makes_two_traces_hard_to_compare_is_told() -> None:
    found = of([], [row("aten::mm", 0.1)], device_name="AMD Example", world_size=8, rank=3, steps=())
    assert [(note.id, *note.figures.values()) for note in found.notes] == [
        ("difference.devices", "NVIDIA Example", "AMD Example"),
        ("difference.world_sizes", "1", "8"),
        ("difference.ranks", "0", "3"),
        ("difference.steps", "1", "unknown"),
        ("difference.one_has_steps",),
        ("difference.no_ops",),
    ]


def test_what_was_inferred_is_the_same_as_what_was_linked() -> None:
    """Kernels whose launches were not recorded have neither phase nor module."""
    linked, inferred = row("aten::mm", 0.3, phase="forward", module="h.0"), row("aten::mm (inferred)", 0.2)
    (change,) = of([linked], [inferred]).changes
    assert (change.name, change.before_s, change.after_s) == ("aten::mm", 0.3, 0.2)
    (change,) = of([inferred], [inferred]).changes
    assert change.name == "aten::mm (inferred)"
    both = of([linked], [row("aten::mm", 0.1, phase="backward")]).changes
    assert len(both) == 2, "phases are told apart where nothing was inferred"


def test_traces_that_are_linked_differently_are_hard_to_compare() -> None:
    linked, unlinked = [row("aten::mm", 0.3)], [row("aten::mm", 0.2), row("(no op recorded)", 0.1)]
    assert of(linked, linked).notes == of(unlinked, unlinked).notes == ()
    (note,) = of(linked, unlinked).notes
    assert note.id == "difference.unlinked"
    assert note.figures == {"before": 0.0, "after": pytest.approx(0.1 / 0.3)}


def test_a_product_into_a_given_result_is_the_same_product() -> None:
    eager, out = row("aten::mm", 0.3, shapes="fp32[8,4] fp32[4,2]"), "fp32[8,4] fp32[4,2] fp32[8,2]"
    found = of([eager], [row("aten::mm", 0.2, shapes=out)])
    assert [change.shapes for change in found.changes] == ["fp32[8,4] fp32[4,2]"]
    assert found.notes == ()
    other = of([eager], [row("aten::mm", 0.2, shapes="fp32[8,4] fp32[4,3] fp32[8,3]")])
    assert other.notes[0].id == "difference.shapes"


def test_what_is_recorded_on_one_side_and_in_part_inferred_on_the_other_is_one_op() -> None:
    before = [row("aten::mm", 0.4, calls=4.0, phase="forward")]
    after = [row("aten::mm", 0.1, calls=1.0, phase="forward"), row("aten::mm (inferred)", 0.2, calls=3.0, phase="")]
    (change,) = of(before, after).changes
    assert (change.name, change.before_calls, change.after_calls) == ("aten::mm", 4.0, 4.0)
    assert (change.before_s, change.after_s) == (0.4, pytest.approx(0.3))
    same = of([*before, row("aten::add", 0.1)], [*after, row("aten::add", 0.1)]).changes
    assert [each.name for each in same] == ["aten::mm", "aten::add"], "other ops stay as they are"


def test_matrix_products_in_another_dtype_are_told() -> None:
    def computed(*parts: tuple[str, float]) -> tuple[PrecisionFlops, ...]:
        return tuple(PrecisionFlops(unit="matrix", dtype=dtype, flops=flops) for dtype, flops in parts)

    ops = (row("aten::mm", 0.4),)
    before = rank_trace(label="B", ops=ops, flops_by_precision=computed(("fp32", 1e12)))
    after = rank_trace(label="A", ops=ops, flops_by_precision=computed(("bf16", 9e11), ("fp32", 1e11)))
    (note,) = compare_traces(after, before).notes
    assert (note.id, list_figures(note.text)) == ("difference.dtypes", ["90 %", "10 %", "100 %"])
    little = rank_trace(label="A", ops=ops, flops_by_precision=computed(("bf16", 1e10), ("fp32", 99e10)))
    assert compare_traces(little, before).notes == ()


def test_other_dtypes_are_no_other_shapes() -> None:
    before = [row("aten::add", 0.2, shapes="fp32[8,4] fp32[8,4]")]
    (note,) = of(before, [row("aten::add", 0.2, shapes="bf16[8,4] bf16[8,4]")]).notes
    assert (note.id, note.figures) == ("difference.op_dtypes", {"share": 1.0})
    both = of(before, [row("aten::add", 0.2, shapes="bf16[8,5] bf16[8,5]")]).notes
    assert [(note.id, note.figures) for note in both] == [("difference.shapes", {"share": 1.0})]
