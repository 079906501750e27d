"""Counters of launches, and the kernels of a trace they belong to."""

import re
from pathlib import Path

import numpy as np
import pytest

from perfkit.trace.counters.match_counters import (
    LaunchCounters,
    get_bare_name,
    match_launches,
    normalize_kernel_name,
    read_counters,
)
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.ncu_exports import BF16, FADD, FFMA, FMUL, READ, TIME, WRITE, raw_page
from tests.fixtures.traces import kernel, launch, op, write_trace

UNITS = {READ: "byte", WRITE: "byte", TIME: "nsecond"}


def metrics(flops: int, read: int = 100) -> dict[str, str]:
    return {FADD: f"{flops:,}", FMUL: "0", FFMA: "0", BF16: "0", READ: f"{read:,}", WRITE: "0", TIME: "1,000"}


def export(tmp_path: Path, *kernels: tuple[str, int], **options: object) -> LaunchCounters:
    path = tmp_path / "counters.csv"
    path.write_text(raw_page([(name, metrics(flops)) for name, flops in kernels], UNITS, **options))  # type: ignore[arg-type]
    return read_counters(path)


KINETO = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"  # noqa: E501
NSIGHT = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, std::array<char *, (unsigned long)1>>(int, T2, T3)"  # noqa: E501


def test_both_demanglers_give_one_key() -> None:
    assert normalize_kernel_name(KINETO) == normalize_kernel_name(NSIGHT)
    assert normalize_kernel_name(
        "void (anonymous namespace)::f<float, 10, false>(float*, float const*)"
    ) == normalize_kernel_name("void <unnamed>::f<float, (int)10, (bool)0>(T1 *, const T1 *)")


def test_lambdas_keep_their_number() -> None:
    kineto = "void k<2, copy(It&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)"
    nsight = (
        "void k<(int)2, copy(It &)::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)]>(int)"
    )
    other = nsight.replace("instance 3", "instance 4")
    assert normalize_kernel_name(kineto) == normalize_kernel_name(nsight) != normalize_kernel_name(other)


def test_bare_names() -> None:
    assert get_bare_name(KINETO) == "vectorized_elementwise_kernel"
    assert get_bare_name("triton_poi_fused_0") == "triton_poi_fused_0"


def test_counts_are_read_and_matched_in_order_of_launch(tmp_path: Path) -> None:
    counters = export(tmp_path, (NSIGHT, 1000), ("gemm", 7), (NSIGHT, 2000))
    flops, dram, _, _, seconds = match_launches(counters, [KINETO, KINETO, "gemm", "other"])
    assert flops[:3].tolist() == [1000, 2000, 7]
    assert np.isnan(flops[3])
    assert dram[:3].tolist() == [100, 100, 100]
    assert seconds[0] == pytest.approx(1e-6)


def test_a_trace_of_several_steps_takes_the_counted_step_again_and_again(tmp_path: Path) -> None:
    counters = export(tmp_path, ("k", 1), ("k", 2))
    assert match_launches(counters, ["k"] * 6)[0].tolist() == [1, 2, 1, 2, 1, 2]


def test_a_longer_export_is_averaged_over_its_repeats(tmp_path: Path) -> None:
    counters = export(tmp_path, ("k", 1), ("k", 10), ("k", 3), ("k", 10))
    assert match_launches(counters, ["k", "k"])[0].tolist() == [2, 10]


def test_numbers_of_launches_that_do_not_divide_are_matched_only_where_all_launches_agree(tmp_path: Path) -> None:
    assert match_launches(export(tmp_path, ("k", 100), ("k", 101)), ["k"] * 3)[0].tolist() == [100.5] * 3
    assert np.isnan(match_launches(export(tmp_path, ("k", 100), ("k", 200)), ["k"] * 3)[0]).all()


def test_bare_names_match_only_what_was_printed_bare(tmp_path: Path) -> None:
    bare = export(tmp_path, ("vectorized_elementwise_kernel", 5))
    assert match_launches(bare, [KINETO])[0].tolist() == [5]
    other = export(tmp_path, (NSIGHT.replace("Fill", "Add"), 5))
    assert np.isnan(match_launches(other, [KINETO])[0]).all()


def test_the_process_with_the_most_launches_is_taken(tmp_path: Path) -> None:
    counters = export(tmp_path, ("k", 1), ("k", 2), ("k", 3), processes=("1", "2", "2"))
    assert counters.flops.tolist() == [2, 3]
    (note,) = counters.notes
    assert (note.id, note.figures) == ("counters.processes", {"processes": 2})
    assert re.findall(r"\d+", note.text) == ["2", "2", "2"]


def test_what_was_not_collected_is_nan_and_said(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(raw_page([("k", {FADD: "1", FMUL: "1", FFMA: "1", TIME: "5"})], UNITS))
    counters = read_counters(path)
    assert np.isnan(counters.flops).all()
    assert np.isnan(counters.dram_bytes).all()
    assert [(note.id, note.figures) for note in counters.notes] == [
        ("counters.no_flops", {"launches": 1}),
        ("counters.no_traffic", {"launches": 1}),
    ]


def test_columns_align_with_the_kernels_of_a_trace_by_launch_not_by_start(tmp_path: Path) -> None:
    events = [op("aten::x", 0, 100)]
    events += [launch(1, 10), kernel("k", 1, 90, 5, stream=8), launch(2, 20), kernel("k", 2, 50, 5)]
    events += [kernel("Memcpy HtoD", 3, 70, 5, cat="gpu_memcpy")]
    trace = read_trace(write_trace(tmp_path / "trace.json.gz", events))
    columns = export(tmp_path, ("k", 1), ("k", 2)).match_columns(trace, read_ops(trace).kernels)
    # In the order of their start: the second launch, the copy, the first launch.
    assert columns.flops[[0, 2]].tolist() == [2, 1]
    assert columns.known.tolist() == [True, False, True]
