"""Documents on every subject, made of the samples that tests render and of recorded traces.

What is analyzed here lies in a folder of its own under relative names, so that no path of a machine is told.
"""

import pickle
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.analysis.pipeline.flight_analysis import analyze_flight
from perfkit.analysis.pipeline.process_stacks import analyze_process
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.check.history.history import read_history
from perfkit.store.price import Price
from perfkit_reports.document.document import Document
from perfkit_reports.subjects import calibration
from perfkit_reports.subjects.advice.advice_document import build_document as build_advice
from perfkit_reports.subjects.check.check_document import build_document as build_check
from perfkit_reports.subjects.comparison.comparison_document import build_document as build_comparison
from perfkit_reports.subjects.flight.flight_document import build_document as build_flight
from perfkit_reports.subjects.history.history_document import build_document as build_history
from perfkit_reports.subjects.loop.loop_document import build_document as build_loop
from perfkit_reports.subjects.memory.memory_document import build_document as build_memory
from perfkit_reports.subjects.plan.plan_document import build_document as build_plan
from perfkit_reports.subjects.process.process_document import build_document as build_process
from perfkit_reports.subjects.suite.suite_document import build_document as build_suite
from perfkit_reports.subjects.trace.trace_document import build_document as build_trace
from tests.fixtures import (
    sample_advice,
    sample_analysis,
    sample_calibration,
    sample_checks,
    sample_histories,
    sample_loops,
    sample_memory_analysis,
    sample_plans,
    sample_trace_analysis,
    spied_process,
)
from tests.fixtures.flight_dumps import dump, entry
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.suites import keep_price, record, write_suite

_ROOT = Path(__file__).parents[3]
_MADE = "2026-01-31T12:00:00+00:00"  # where an analysis would have the time at which it was made
_GIB = 2**30

Samples = dict[str, Document]


def build_samples() -> dict[str, Samples]:
    """Documents by subject and sample; the working directory is an empty one to write to."""
    return {subject: build() for subject, build in _SUBJECTS.items()}


def _build_suites() -> Samples:
    names = ("realistic", "every_status", "nothing_measured", "predicted")
    steps = {"baseline": (0.1, 0.101, 0.102), "amp": (0.08, 0.081, 0.082)}
    written = write_suite(Path("suite"), {name: [record(each) for each in times] for name, times in steps.items()})
    keep_price(written, Price(per_hour=3.6, currency="$"))
    return {
        **{name: build_suite(getattr(sample_analysis, name)()) for name in names},
        "two measured variants with a price": build_suite(analyze_suite(written)),
    }


def _build_loops() -> Samples:
    names = ("alone", "with_capture", "out_of_memory", "hostile")
    return {name: build_loop(getattr(sample_loops, name)()) for name in names}


def _build_traces() -> Samples:
    names = ("realistic", "alone", "without_shapes", "unknown_device", "cpu_only", "nothing", "hostile", "many_ranks")
    recorded = {
        "recorded on an H100": (_ROOT / "examples" / "h100_qwen1.5_forward.json.gz",),
        "recorded on an MI250": (_ROOT / "tests/fixtures/recorded/mi250_toy_train.json.gz",),
        "recorded on two H200": tuple(_ROOT / f"tests/fixtures/recorded/h200/nccl_rank{rank}.json.gz" for rank in "01"),
    }
    return {
        **{name: build_trace(getattr(sample_trace_analysis, name)()) for name in names},
        **{name: build_trace(_dated(analyze_traces(_bring(*files), jobs=1))) for name, files in recorded.items()},
    }


def _build_memory() -> Samples:
    names = ("realistic", "alone", "out_of_memory", "bare", "nothing", "hostile")
    return {name: build_memory(getattr(sample_memory_analysis, name)()) for name in names}


def _build_plans() -> Samples:
    return {name: build_plan(getattr(sample_plans, name)()) for name in ("realistic", "alone", "ranks", "nothing")}


def _build_advice() -> Samples:
    names = ("realistic", "measured", "unknown_times", "of_a_trace")
    return {name: build_advice(getattr(sample_advice, name)()) for name in names}


def _build_checks() -> Samples:
    calibrations = {name: getattr(sample_calibration, name)() for name in ("steady", "biased")}
    return {
        **{name: build_check(make()) for name, make in sample_checks.ALL.items()},
        **{f"calibration, {name}": calibration.build_document(known) for name, known in calibrations.items()},
    }


def _build_comparisons() -> Samples:
    traces = [training_file(Path("before.json")), training_file(Path("after.json"), slower=1.5)]
    steps = {"a": {"baseline": 0.1, "amp": 0.05, "ckpt": 0.12}, "b": {"baseline": 0.1, "amp": 0.04, "lora": 0.1}}
    suites = [
        write_suite(Path(side), {name: [record(step * each) for each in (1, 1.01, 0.99)] for name, step in of.items()})
        for side, of in steps.items()
    ]
    compared = compare_runs(traces)
    sides = tuple(map(_dated, compared.sides))
    return {
        "two traces": build_comparison(_dated(replace(compared, sides=sides))),
        "two suites": build_comparison(_dated(compare_runs(suites))),
    }


def _build_histories() -> Samples:
    steps = sample_histories.noisy_steps([(18, 0.1), (12, 0.11)], 0.01, 3)
    changed = sample_histories.write_past(Path("changed"), steps, peaks=[_GIB] * 10 + [_GIB + 1] * 20)
    short = sample_histories.write_past(Path("short"), steps[:2])
    return {
        "slower, and one byte more": build_history(_dated(read_history(changed))),
        "two days": build_history(_dated(read_history(short))),
    }


def _build_flights() -> Samples:
    frames = (("loss", "/home/me/train.py", 12),)
    absent = (dump(entry(0), entry(1, ended=False, frames=frames)), dump(entry(0, frames=frames)))
    for rank, each in enumerate(absent):
        Path(f"dump_{rank}").write_bytes(pickle.dumps(each, 2))
    Path("alone_0").write_bytes(pickle.dumps(dump(entry(0), groups={("0", "default_pg"): (0,)}), 2))
    recorded = _bring(*(_ROOT / f"tests/fixtures/recorded/h200/nccl_trace_rank_{rank}" for rank in "01"))
    return {
        "missing rank": build_flight(_dated(analyze_flight(["dump_0", "dump_1"]))),
        "one complete rank": build_flight(_dated(analyze_flight(["alone_0"]))),
        "recorded on two H200": build_flight(_dated(analyze_flight(recorded))),
    }


def _build_processes() -> Samples:
    facts, threads = spied_process.facts(), spied_process.threads()
    return {
        "waiting for the loader": build_process(_dated(analyze_process(facts, threads))),
        "ended": build_process(_dated(analyze_process(replace(facts, has_ended=True), threads))),
        "interrupted": build_process(_dated(analyze_process(replace(facts, interrupted=True), threads))),
        "no main thread": build_process(_dated(analyze_process(facts, threads[1:]))),
    }


_SUBJECTS: Mapping[str, Callable[[], Samples]] = {
    "suite": _build_suites,
    "loop": _build_loops,
    "trace": _build_traces,
    "memory": _build_memory,
    "plan": _build_plans,
    "advice": _build_advice,
    "check": _build_checks,
    "compare": _build_comparisons,
    "history": _build_histories,
    "flight": _build_flights,
    "process": _build_processes,
}


def _bring(*files: Path) -> list[str]:
    """Copies under their own names."""
    return [shutil.copy(file, file.name) for file in files]


def _dated(analysis: Any) -> Any:
    return replace(analysis, created_at=_MADE)
