from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.step import LostKernels, TimeShare
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.time_split import COMMUNICATION, COMPUTE_BOUND
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.check.judge.check_figures import (
    LOSSES,
    RunFigures,
    convert_from_stored,
    convert_to_stored,
    pool_rounds,
    read_figures,
)
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.core.files import write_json
from perfkit.core.record.attached_loop import AttachedLoop
from perfkit.core.record.memory import MemoryPeaks
from perfkit.core.record.quantity import Measurement, QuantityOrigin, Unknown, make_measurement
from perfkit.core.record.rank_record import RunStatus, WorkloadFacts
from perfkit.core.record.run_result import RunResult
from perfkit.store.layout import CEILINGS_FILE, TRACE_FILE, get_rank_folder
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import CEILINGS, NO_MEMORY, record, spec, write_run, write_suite_file
from tests.fixtures.traces import Event, mark, op, write_trace

SQUARE = (100, 100)


def step(number: int, start: int) -> list[Event]:
    """1000 us with two products, 300 us of it fetching."""
    return [
        mark(f"perfkit::step#{number}", start, 1000),
        mark("perfkit::data", start, 300),
        mark("perfkit::forward", start + 300, 300),
        op("aten::mm", start + 310, 200, [SQUARE, SQUARE]),
        op("aten::mm", start + 610, 300, [SQUARE, SQUARE]),
    ]


TRACE = [*step(3, 0), *step(4, 1000), *step(5, 2000)]


def of(folder: Path, *records: Any, events: list[Event] | None = TRACE, run: RunResult | None = None) -> Variant:
    """The variant whose repeats are the records."""
    entries = []
    for repeat, each in enumerate(records):
        whole = spec(world_size=each.world_size, passes=() if repeat else ("trace",))
        entries.append(write_run(folder, whole, repeat, [each], run or RunResult(status=RunStatus.OK)))
    write_suite_file(folder, [entries[0].variant], entries)
    write_json(folder / CEILINGS_FILE, CEILINGS)
    if events is not None:
        write_trace(get_rank_folder(folder / entries[0].path, 0) / TRACE_FILE, events)
    return analyze_suite(folder).variants[0]


def test_every_quantity_has_a_figure_or_a_reason(tmp_path: Path) -> None:
    found = read_figures(of(tmp_path, record()))
    told = [*found.exact, *found.processes, *found.missing, *(["parity"] if found.losses else [])]
    assert sorted(told) == sorted(quantity.name for quantity in QUANTITIES)
    assert all(found.missing.values())


def test_kernels_of_a_trace_that_lost_some_are_no_count(tmp_path: Path) -> None:
    whole = of(tmp_path, record())
    lost = LostKernels(launched=400, lost=1, without_time=0, share=1 / 400)
    assert whole.trace is not None
    found = read_figures(replace(whole, trace=replace(whole.trace, lost_kernels=lost)))
    assert "kernel_count" not in found.exact
    assert list_figures(found.missing["kernel_count"]) == ["1", "400"]
    assert (
        "kernel_count"
        in read_figures(replace(whole, trace=replace(whole.trace, lost_kernels=replace(lost, lost=0)))).exact
    )


def test_figures_of_a_bench(tmp_path: Path) -> None:
    found = read_figures(of(tmp_path, record(0.1), record(0.2), record(0.05)))
    assert found.exact == {"flops": 2e9, "kernel_count": 2.0}
    assert found.processes == {
        "step_time": (0.1, 0.2, 0.05),
        "cpu_time": (0.2, 0.4, 0.1),
        "throughput": pytest.approx((80.0, 40.0, 160.0)),
        "mfu": pytest.approx((0.2, 0.1, 0.4)),  # 2 GFLOP / (0.1 s x 1e11 FLOP/s)
        "data_wait": (pytest.approx(0.03),),
    }
    assert found.losses == (3.0, 2.0, 1.0)
    assert found.missing.keys() == {
        "peak_allocated",
        "peak_reserved",
        "graph_breaks",
        "compile_time",
        "exposed_communication",
        "energy",
    }
    assert found.missing["graph_breaks"] == found.missing["compile_time"]
    assert "allocator" in found.missing["peak_allocated"]
    assert "single rank" in found.missing["exposed_communication"]


def test_figures_of_a_gpu_and_of_compiling(tmp_path: Path) -> None:
    memory = MemoryPeaks(
        allocated=make_measurement(5e9, "bytes", "CUDA"),
        reserved=make_measurement(6e9, "bytes", "CUDA"),
        driver_used=Unknown(reason="no"),
        rss=NO_MEMORY.rss,
    )
    energy = Measurement(value=12.5, unit="J", how=QuantityOrigin.MEASURED, source="NVML")
    facts = {"graphs": 1.0, "graph_breaks": 2.0, "compile_s": 31.5}
    found = read_figures(of(tmp_path, record(memory=memory, energy=energy, facts=facts)))
    assert (found.exact["peak_allocated"], found.exact["peak_reserved"], found.exact["graph_breaks"]) == (5e9, 6e9, 2.0)
    assert (found.processes["energy"], found.processes["compile_time"]) == ((12.5,), (31.5,))


def test_only_the_first_losses_are_compared(tmp_path: Path) -> None:
    longer = tuple(float(number) for number in range(50))
    assert read_figures(of(tmp_path, record(losses=longer))).losses == longer[:LOSSES]


def test_a_run_that_failed_says_so(tmp_path: Path) -> None:
    run = RunResult(status=RunStatus.OUT_OF_MEMORY, reason="at step 3")
    failed = record((), status=RunStatus.OUT_OF_MEMORY, losses=(), flops=None)
    found = read_figures(of(tmp_path, failed, events=None, run=run))
    assert (found.exact, found.processes, found.losses) == ({}, {}, ())
    for quantity in ("step_time", "kernel_count", "graph_breaks", "compile_time", "data_wait", "parity"):
        assert list_figures(found.missing[quantity]) == ["3"]


def test_figures_of_an_attached_loop(tmp_path: Path) -> None:
    attached = AttachedLoop(step_marker="the steps of SGD", data_wait_s=(0.01, 0.02, 0.03, 0.04))
    units = WorkloadFacts(unit="samples", units_per_batch=8, parameters=5)
    found = read_figures(of(tmp_path, record(0.0005, attached_loop=attached, workload=units, losses=(), flops=None)))
    assert found.exact == {"flops": 4e6, "kernel_count": 2.0}
    assert found.processes["data_wait"] == (pytest.approx(0.025),)
    assert found.processes["throughput"] == (pytest.approx(16000),)
    assert "external loops" in found.missing["parity"]
    nothing = read_figures(of(tmp_path / "b", record(attached_loop=AttachedLoop(step_marker="calls")), events=None))
    assert "no DataLoader" in nothing.missing["data_wait"]
    assert "traced" in nothing.missing["kernel_count"]


def test_kernels_are_those_of_the_usual_step(tmp_path: Path) -> None:
    extra = op("aten::mm", 2950, 10, [SQUARE, SQUARE])
    assert read_figures(of(tmp_path / "a", record(), events=[*TRACE, extra])).exact["kernel_count"] == 2
    more = [op("aten::mm", start + 950, 10, [SQUARE, SQUARE]) for start in (0, 1000, 2000)]
    assert read_figures(of(tmp_path / "b", record(), events=[*TRACE, *more])).exact["kernel_count"] == 3


def test_all_kernels_count_however_many_rows_a_report_shows(tmp_path: Path) -> None:
    many = [op("aten::mm", 310 + number, 1, [(number + 1, 7), (7, 9)]) for number in range(300)]
    found = of(tmp_path, record(), events=[mark("perfkit::step#3", 0, 1000), *many])
    assert len(found.ops) < 300
    assert read_figures(found).exact["kernel_count"] == 300


def test_exposed_communication_is_that_of_the_traced_step(tmp_path: Path) -> None:
    split = (
        TimeShare(category=COMPUTE_BOUND, seconds=0.75, share=0.75),
        TimeShare(category=COMMUNICATION, seconds=0.25, share=0.25),
    )
    one = of(tmp_path, record())
    assert one.trace is not None
    two = replace(one, world_size=2, trace=replace(one.trace, time_split=split))
    assert two.trace is not None
    assert read_figures(two).processes["exposed_communication"] == (0.25,)
    without = replace(two, trace=replace(two.trace, time_split=split[:1]))
    untold = read_figures(without).missing["exposed_communication"]
    untraced = read_figures(replace(two, trace=None)).missing["exposed_communication"]
    assert untold != untraced
    assert untold.endswith("in the traced step")
    assert "no whole step" in untraced


def test_figures_come_back_from_a_baseline(tmp_path: Path) -> None:
    found = read_figures(of(tmp_path, record(0.1), record(0.2)))
    back = convert_from_stored(convert_to_stored(found))
    assert (back.exact, back.processes, back.losses) == (found.exact, found.processes, found.losses)
    assert "baseline" in back.missing["energy"]
    assert back.missing == dict.fromkeys(found.missing, back.missing["energy"])
    assert convert_from_stored(convert_to_stored(RunFigures())).missing.keys() == {
        quantity.name for quantity in QUANTITIES
    }


def test_figures_of_several_rounds_are_pooled_and_counts_that_differ_are_none() -> None:
    rounds = [
        RunFigures(exact={"flops": 5.0, "kernel_count": count}, processes={"energy": (joules,)}, losses=(loss,))
        for count, joules, loss in ((700.0, 1.0, 3.0), (702.0, 2.0, 3.5))
    ]
    found = pool_rounds(rounds)
    assert found.exact == {"flops": 5.0}
    assert found.missing == {"kernel_count": "differs between processes (700, 702)"}
    assert found.processes == {"energy": (1.0, 2.0)}
    assert found.losses == (3.0,)
