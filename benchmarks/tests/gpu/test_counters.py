import json
from pathlib import Path

import pytest

from benchmarks.gpu.bench_results import Ended
from benchmarks.gpu.counters import BOUNDS, ROWS, compare_op, compute_ratio, sum_counters
from benchmarks.gpu.op_classes import BUILDERS, LAUNCHES, model_op
from tests.fixtures.ncu_exports import BF16, FADD, FFMA, FMUL, READ, TIME, WRITE, raw_page

NO_VECTOR = {FADD: "0", FMUL: "0", FFMA: "0"}
GEMM = {**NO_VECTOR, BF16: "1000", READ: "600", WRITE: "400", TIME: "2000"}
UNITS = {READ: "byte", WRITE: "byte", TIME: "nsecond"}
DONE = Ended(0, 9.0, "==PROF== Disconnected")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "counters.csv"
    path.write_text(raw_page([("gemm", GEMM), ("gemm", GEMM)], UNITS))
    return path


def write_costs(tmp_path: Path, flops: float | None, moved: float | None) -> Path:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"flops": flops, "bytes": moved, "ops": ["aten::mm"]}))
    return path


def test_counts_of_all_launches_are_summed(export: Path) -> None:
    counted = sum_counters(export)
    assert (counted["flops"], counted["bytes"], len(counted["kernels"])) == (2000.0, 2000.0, 2)


def test_flops_within_the_bounds_are_right(tmp_path: Path, export: Path) -> None:
    found = compare_op("GEMM", write_costs(tmp_path, 2040.0, 1500.0), export, DONE)
    assert found.figures["ratios"] == {"flops": 1.02, "bytes": 0.75}
    assert found.wrong == []


@pytest.mark.parametrize("flops", [1800.0, 2200.0, None])
def test_flops_beyond_the_bounds_or_unknown_are_wrong(tmp_path: Path, export: Path, flops: float | None) -> None:
    assert len(compare_op("GEMM", write_costs(tmp_path, flops, 2000.0), export, DONE).wrong) == 1


def test_a_launch_without_a_count_leaves_the_sum_unknown(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(raw_page([("gemm", GEMM), ("other", {**NO_VECTOR, BF16: "1", TIME: "1"})], UNITS))
    assert sum_counters(path)["bytes"] is None


def test_ncu_that_is_ended_or_refused_is_wrong_and_keeps_its_output(tmp_path: Path) -> None:
    costs, missing = write_costs(tmp_path, 1.0, 1.0), tmp_path / "counters.csv"
    ended = compare_op("GEMM", costs, missing, Ended(None, 45.0, "==PROF== 50%"))
    assert len(ended.wrong) == 1
    assert ended.figures["output"] == "==PROF== 50%"
    missing.write_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    refused = compare_op("GEMM", costs, missing, Ended(1, 3.0, ""))
    assert "ERR_NVGPUCTRPERM" in refused.wrong[0]


def test_nothing_is_divided_by_what_was_not_counted() -> None:
    assert compute_ratio(1.0, None) is compute_ratio(None, 1.0) is compute_ratio(1.0, 0.0) is None


def test_bounds_belong_to_rows() -> None:
    assert {op_class for op_class, _ in BOUNDS} <= {row.name for row in ROWS} == set(BUILDERS)


@pytest.mark.parametrize("op_class", BUILDERS)
def test_every_class_has_modeled_flops_and_bytes(op_class: str) -> None:
    call = BUILDERS[op_class]("cpu")
    call()
    modeled = model_op(call)
    assert modeled.flops
    assert modeled.bytes


def test_a_product_is_modeled_by_hand() -> None:
    modeled = model_op(BUILDERS["GEMM"]("cpu"))
    assert modeled.flops == LAUNCHES * 2 * 64**3
    assert modeled.bytes == LAUNCHES * 3 * 64**2 * 2
