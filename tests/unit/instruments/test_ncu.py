"""Nsight Compute: where it is looked for, how it is called, and what its refusals are turned into."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.instruments.ncu import METRICS, build_ncu_command, explain_refusal, find_ncu, list_chip_metrics
from perfkit.trace.counters.match_counters import read_counters
from tests.fixtures.ncu_exports import BF16, FADD, FFMA, FMUL, READ, TIME, WRITE, raw_page


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_it_is_found_on_the_path_before_cuda_home(tmp_path: Path) -> None:
    on_path, at_home = program(tmp_path / "a" / "ncu"), program(tmp_path / "cuda" / "bin" / "ncu")
    both = {"PATH": str(tmp_path / "a"), "CUDA_HOME": str(tmp_path / "cuda")}
    assert find_ncu(both) == on_path
    assert find_ncu({**both, "PATH": str(tmp_path)}) == at_home


def test_without_it_the_message_says_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(UsageError, match=r"https://developer\.nvidia\.com/nsight-compute"):
        find_ncu({"PATH": str(tmp_path)})


def test_the_command_counts_only_what_the_worker_asks_for_and_writes_base_units(tmp_path: Path) -> None:
    words = build_ncu_command(Path("/opt/ncu"), tmp_path / "counters.csv")
    options = dict(zip(words[1::2], words[2::2], strict=False))
    assert words[0] == "/opt/ncu"
    assert options["--profile-from-start"] == "off"
    assert options["--target-processes"] == "all"
    assert options["--replay-mode"] == "kernel"
    assert options["--metrics"].split(",") == list(METRICS)
    assert words[-2:] == ("--log-file", str(tmp_path / "counters.csv"))


def test_what_is_asked_for_is_enough_to_know_flops_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    named = dict.fromkeys(METRICS, "1")
    path.write_text(raw_page([("k", named | {BF16: "0"})], {READ: "byte", WRITE: "byte", TIME: "nsecond"}))
    counters = read_counters(path)
    assert counters.notes == ()
    assert {FADD, FMUL, FFMA} <= set(named)


QUERIED = """Device NVIDIA H200 (GH100)
---------------------------------------------------------- --------------- ------------------------------------
Metric Name                                                Metric Type     Metric Unit     Metric Description
---------------------------------------------------------- --------------- ------------------------------------
sm__inst_executed                                          Counter         inst            # of warp instructions
sm__inst_executed_pipe_tensor_op_gmma                      Counter         inst            # of warp instructions
sm__ops_path_tensor_src_bf16_dst_fp32                      Counter                         # of math ops
sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off         Counter                         # of math ops
Device Tesla V100 (GV100)
sm__inst_executed_pipe_tensor                              Counter         inst            # of warp instructions
"""


def test_a_chip_is_asked_for_what_it_has(tmp_path: Path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\n[ $1 = --query-metrics ] && cat << END\n{QUERIED}END\n")
    ncu.chmod(0o755)
    assert list_chip_metrics(ncu) == (
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum",
        "sm__inst_executed_pipe_tensor.sum",
    )
    words = build_ncu_command(ncu, tmp_path / "counters.csv", more=list_chip_metrics(ncu))
    assert words[words.index("--metrics") + 1] == ",".join((*METRICS, *list_chip_metrics(ncu)))


def test_an_ncu_that_tells_nothing_leaves_what_every_chip_has(tmp_path: Path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text("#!/bin/sh\nexit 1\n")
    ncu.chmod(0o755)
    assert list_chip_metrics(ncu) == ()


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access ...", "CAP_SYS_ADMIN"),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "dcgmi profile --pause"),
        ("==WARNING== No kernels were profiled.", "no kernel ran"),
        ("==ERROR== Failed to find metric xyz", "ncu wrote no counters: Failed to find metric xyz"),
    ],
)
def test_refusals_say_what_to_do(tmp_path: Path, printed: str, said: str) -> None:
    export = tmp_path / "counters.csv"
    export.write_text(f"==PROF== Connected to process 1\n{printed}\n")
    assert said in explain_refusal(export)


def test_an_export_with_a_table_is_no_refusal(tmp_path: Path) -> None:
    export = tmp_path / "counters.csv"
    assert "ncu" in explain_refusal(export)
    export.write_text(raw_page([("k", {READ: "1"})]))
    assert explain_refusal(export) == ""
