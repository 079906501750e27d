"""Keys are equal for the same work wherever it stands, and short for any name."""

from msgspec.structs import replace

from perfkit_reports.selection import hash_row_part, make_key, make_name_key, make_row_key
from tests.fixtures import rank_traces


def test_a_long_name_is_cut_and_stays_apart_from_others_that_begin_alike() -> None:
    one, other = make_key("kernel", "void f<" + "a" * 900), make_key("kernel", "void f<" + "a" * 901)
    assert one != other
    assert len(one) < 60
    assert one.startswith("kernel:void f<aaa")


def test_rows_of_one_name_share_its_key_and_differ_in_their_part() -> None:
    forward = rank_traces.row("aten::mm", 1.0, phase="forward", shapes="bf16[8,8] bf16[8,8]")
    backward = replace(forward, phase="backward")
    assert make_name_key(forward) == make_name_key(backward) == "op:aten::mm"
    assert hash_row_part(forward) != hash_row_part(backward)
    assert make_row_key(forward) == f"op:aten::mm;{hash_row_part(forward)}"


def test_a_module_goes_by_its_path_and_a_level_of_memory_by_its_kernel() -> None:
    module = rank_traces.row("Linear_1", 1.0, kind="module", module="Net_0/Linear_1")
    level = rank_traces.row("gemm (l2)", 1.0, kind="level", level="l2")
    assert make_name_key(module) == "module:Net_0/Linear_1"
    assert make_name_key(level) == "kernel:gemm"


def test_a_phase_is_the_same_as_a_row_and_as_a_dot() -> None:
    dot = rank_traces.row("forward", 1.0, kind="phase")
    assert make_row_key(dot) == make_row_key(replace(dot, phase="forward"))
