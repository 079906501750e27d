"""What a check compares exactly is the same in every process: to the byte, whatever ran before the measured steps."""

import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.check.judge.check_figures import RunFigures, read_figures
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.exact_counts import judge_exact_quantities
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.judge.result import Verdict
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, parse_variants, parse_workload
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SuiteRun
from perfkit.workloads.workload_table import WORKLOADS
from tests.fixtures.suites import write_suite_file

pytestmark = pytest.mark.slow

GPT = "gpt:vocab=64:seq_len=32"
SHORT = "gpt:vocab=64:seq_len=8:batch_size=1"  # bf16 is slow without AVX512
NOT_WORSE_AT_ALL = {quantity.name: Threshold(text="+0", change=0.0) for quantity in QUANTITIES}


def measure(folder: Path, workload: str = GPT, technique: str = "baseline", *, warmup: int = 1) -> RunFigures:
    spec = RunSpec(
        workload=parse_workload(workload, WORKLOADS.list_names()),
        techniques=parse_variants(technique)[0],
        schedule=Schedule(warmup=warmup, max_warmup=warmup, timed=3, memory=2, trace=2),
        launch=LaunchSpec(threads=1),
    )
    run = folder / technique / "0"
    write_json(run / SPEC_FILE, spec)
    subprocess.run(
        [sys.executable, "-m", "perfkit.measure.rank.worker", str(run)], check=True, timeout=300, capture_output=True
    )
    write_json(run / RUN_FILE, RunResult(status=RunStatus.OK))
    write_suite_file(folder, [technique], [SuiteRun(variant=technique, repeat=0, path=f"{technique}/0")])
    (variant,) = analyze_suite(folder).variants
    assert variant.status == RunStatus.OK, variant.reason
    return read_figures(variant)


@pytest.mark.parametrize("technique", ["baseline", pytest.param("amp+ckpt", marks=pytest.mark.nightly)])
def test_two_processes_count_alike_to_the_byte(tmp_path: Path, technique: str) -> None:
    short = measure(tmp_path / "short", SHORT, technique, warmup=1)
    longer = measure(tmp_path / "longer", SHORT, technique, warmup=6)
    assert short.exact.keys() == {"peak_allocated", "flops", "kernel_count"}
    assert short.exact == longer.exact
    # As many losses as both have: those of warming up are among them.
    both = len(short.losses)
    assert both == 4
    assert short.losses == longer.losses[:both]
    for judged in judge_exact_quantities(short, longer, NOT_WORSE_AT_ALL):
        assert judged.verdict in (Verdict.PASS, Verdict.NOT_COMPARED), judged.reason


@pytest.mark.nightly
def test_a_per_cent_of_memory_is_found_and_named(tmp_path: Path) -> None:
    """`seq_len` 33 in the place of 32 takes some per cent more of activations, and more FLOPs."""
    before, after = measure(tmp_path / "a"), measure(tmp_path / "b", "gpt:vocab=64:seq_len=33")
    judged = {each.quantity: each for each in judge_exact_quantities(before, after, NOT_WORSE_AT_ALL)}
    assert judged["peak_allocated"].verdict is Verdict.FAIL
    assert judged["flops"].verdict is Verdict.FAIL
    assert judged["kernel_count"].verdict is Verdict.PASS
    assert judged["peak_allocated"].before < judged["peak_allocated"].after
