"""`perfkit bench --counters` with a stand-in for Nsight Compute: it starts the worker and writes an export."""

import json
import sys
from pathlib import Path

import pytest

from perfkit.core.spec import Schedule, WorkloadSpec, parse_variants
from perfkit.measure.bench import run_bench
from perfkit.measure.run_events import RunFinished
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import read_suite
from tests.fixtures.ncu_exports import BF16, FADD, FFMA, FMUL, READ, TIME, WRITE, raw_page

WORKLOAD = Path(__file__).parents[1] / "fixtures" / "workloads" / "mlp.py"

# Starts the program behind its own options, as ncu does, and then writes what it counted to --log-file.
STAND_IN = """#!{python}
import subprocess, sys
words = sys.argv[1:]
if words == ["--query-metrics"]:
    sys.exit()
log = words[words.index("--log-file") + 1]
code = subprocess.run(words[words.index("--log-file") + 2 :]).returncode
open(log, "w").write({text!r})
sys.exit(code)
"""


def stand_in(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ncu"
    path.write_text(STAND_IN.format(python=sys.executable, text=text))
    path.chmod(0o755)
    return path


def run(tmp_path: Path, printed: str) -> list[RunFinished]:
    request = BenchRequest(
        workload=WorkloadSpec(name=f"{WORKLOAD}:build"),
        variants=tuple(parse_variants("baseline")),
        device="cpu",
        device_count=0,
        cores=1,
        rounds=0,
        schedule=Schedule(warmup=0, max_warmup=0, timed=1, memory=0, trace=1, parity=1),
    )
    ended: list[RunFinished] = []
    run_bench(
        request,
        tmp_path / "suite",
        command="",
        ceilings=None,
        progress=lambda event: ended.append(event) if isinstance(event, RunFinished) else None,
        ncu=stand_in(tmp_path, printed),
    )
    return ended


def test_counts_lie_beside_the_first_runs_trace_and_the_counting_run_is_no_sample(tmp_path: Path) -> None:
    metrics = dict.fromkeys((FADD, FMUL, FFMA, BF16, READ, WRITE, TIME), "1")
    text = raw_page([("k", metrics)], {READ: "byte", WRITE: "byte", TIME: "nsecond"})
    ended = run(tmp_path, text)
    assert [(each.variant, each.status, each.reason) for each in ended] == [
        ("baseline", "ok", ""), ("baseline (counters)", "ok", ""),
    ]  # fmt: skip
    stored = read_suite(tmp_path / "suite")
    assert len(stored.runs) == 1
    counters = stored.runs[0].ranks[0].counters
    assert counters.read_text() == text
    counted = json.loads((tmp_path / "suite" / "baseline" / "counters" / "spec.json").read_text())
    assert counted["passes"] == ["counters"]
    assert stored.suite.warnings == ()


@pytest.mark.nightly
def test_a_refusal_is_a_warning_of_the_suite(tmp_path: Path) -> None:
    ended = run(tmp_path, "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    assert "CAP_SYS_ADMIN" in ended[-1].reason
    stored = read_suite(tmp_path / "suite")
    (note,) = stored.suite.warnings
    assert note.id == "run.no_counters"
    assert "ERR_NVGPUCTRPERM" in note.text
    assert stored.runs[0].ranks[0].counters is None


def test_without_an_nvidia_gpu_the_option_is_refused(perfkit) -> None:
    result = perfkit("bench", "--counters", "--device", "cpu")
    assert result.returncode == 2
    assert "--counters" in result.stderr
    assert "NVIDIA" in result.stderr
