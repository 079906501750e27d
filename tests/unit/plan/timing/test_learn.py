"""What suites and traces tell of how fast a device is."""

import gzip
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.core.errors import UnavailableError
from perfkit.core.files import write_json
from perfkit.core.record.memory import DeviceMemoryState, ProcessMemory
from perfkit.core.record.quantity import NOT_MEASURED, make_measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.plan.timing.efficiency_store import (
    LearnedDevice,
    LearnedProgram,
    get_device_path,
    load_learned,
    store_learned,
)
from perfkit.plan.timing.learn import find_sources, learn_efficiencies
from perfkit.store.layout import CEILINGS_FILE, TRACE_FILE, get_rank_folder, get_run_path
from tests.fixtures.figures import list_figures
from tests.fixtures.plan_roofs import ceilings
from tests.fixtures.suites import ENVIRONMENT, changed, record, spec, write_run, write_suite, write_suite_file
from tests.fixtures.trace_events import Event, event, inputs, kernel, launch, range_
from tests.fixtures.traces import write_trace

PRODUCT = inputs([64, 64], [64, 64])


def _gpu_trace(file: Path, *, name: str = "NVIDIA H100 80GB HBM3") -> Path:
    """A step of 1 ms with two products of 10 us each."""
    events: list[Event] = [
        range_("ProfilerStep#1", 0, 1000),
        event("aten::mm", 10, 30, **PRODUCT),
        launch(1, 20),
        event("aten::mm", 50, 30, **PRODUCT),
        launch(2, 60),
        kernel("gemm", 25, 10, 1),
        kernel("gemm", 66, 10, 2),
    ]
    file.write_text(json.dumps({"traceEvents": events, "deviceProperties": [{"id": 0, "name": name}]}))
    return file


def test_a_trace_tells_the_time_of_its_calls_and_how_the_host_fed_the_device(tmp_path: Path) -> None:
    (learned,) = learn_efficiencies(str(_gpu_trace(tmp_path / "model.json")))
    assert learned.device == "h100-sxm"
    (program,) = learned.programs
    (sample,) = program.samples
    assert (sample.op_class, sample.op, sample.calls, program.name) == ("GEMM", "aten::mm", 2, "model")
    assert sample.seconds == pytest.approx(10e-6)
    assert sample.flops == 2 * 64**3
    assert program.launch_s == pytest.approx(
        5e-6
    )  # of the second kernel: before the first the device is not known to be idle
    assert program.host_s == pytest.approx(30e-6)


def test_a_host_that_feeds_several_devices_spends_its_time_on_the_kernels_of_all(tmp_path: Path) -> None:
    """Three products on one device, one on another, each 20 us of the host."""
    events: list[Event] = [range_("ProfilerStep#1", 0, 1000)]
    for number, device in enumerate((0, 0, 1, 0)):
        events += [event("aten::mm", 100 * number, 20, **PRODUCT), launch(number, 100 * number + 10)]
        events.append(kernel("gemm", 100 * number + 15, 10, number, device, stream=device))
    properties = [{"id": number, "name": "NVIDIA H100 80GB HBM3"} for number in (0, 1)]
    (tmp_path / "two.json").write_text(json.dumps({"traceEvents": events, "deviceProperties": properties}))
    ((program,),) = (learned.programs for learned in learn_efficiencies(str(tmp_path / "two.json")))
    assert program.host_s == pytest.approx(20e-6)


def test_a_trace_that_names_no_known_gpu_needs_the_users_word(tmp_path: Path) -> None:
    trace = str(_gpu_trace(tmp_path / "model.json", name="a GPU"))
    with pytest.raises(UnavailableError, match="'a GPU' is not in the catalog: name it with --gpu"):
        learn_efficiencies(trace)
    (learned,) = learn_efficiencies(trace, resolve_entry("a100-sxm-80gb"))
    assert learned.device == "a100-sxm-80gb"


def test_a_cpus_trace_does_not_say_which_cpu_it_is_of(tmp_path: Path) -> None:
    trace = tmp_path / "cpu.json"
    trace.write_text(json.dumps({"traceEvents": [event("aten::mm", 0, 10, **PRODUCT)]}))
    with pytest.raises(UnavailableError, match=r"cpu\.json: .*\bCPU\b"):
        learn_efficiencies(str(trace))


def test_nothing_is_learned_of_ops_without_shapes(tmp_path: Path) -> None:
    trace = _gpu_trace(tmp_path / "model.json")
    content = json.loads(trace.read_text())
    for each in content["traceEvents"]:
        each["args"] = {key: value for key, value in each["args"].items() if not key.startswith("Input")}
    trace.write_text(json.dumps(content))
    with pytest.raises(UnavailableError, match="record_shapes"):
        learn_efficiencies(str(trace))


def _suite(folder: Path, variants: dict[str, float], threads: dict[str, int] | None = None) -> Path:
    """A suite whose variants' steps take so long, of which the traced one has two products of 20 ms.

    `threads` are those of a variant's rank where they are not 2, which alone have ceilings.
    """
    environments = {name: changed(ENVIRONMENT, threads=count) for name, count in (threads or {}).items()}
    records = {
        name: [record(step_s, environment=environments.get(name, ENVIRONMENT))] for name, step_s in variants.items()
    }
    write_suite(folder, records, ceilings=ceilings())
    for name in variants:
        _trace(folder, name)
    return folder


def _trace(suite: Path, variant: str) -> None:
    events = [
        range_("ProfilerStep#1", 0, 100_000),
        event("aten::mm", 10_000, 20_000, **PRODUCT),
        event("aten::mm", 50_000, 20_000, **PRODUCT),
    ]
    write_trace(get_rank_folder(suite / get_run_path(variant, 0), 0) / TRACE_FILE, events)


def test_a_suite_tells_the_time_of_calls_without_a_profiler_and_the_hosts_beside_them(tmp_path: Path) -> None:
    # The traced step takes 100 ms, one without a profiler 80: so do its calls, and 80 - 2 x 16 ms are the host's.
    (learned,) = learn_efficiencies(str(_suite(tmp_path, {"baseline": 0.08})))
    assert (learned.device, learned.ceilings) == (ceilings().fingerprint, ceilings().ceilings)
    (program,) = learned.programs
    (sample,) = program.samples
    assert (program.name, program.threads) == ("gpt", 2)
    assert sample.seconds == pytest.approx(0.016)
    assert program.host_s == pytest.approx((0.08 - 2 * 0.016) / 2)


def test_ranks_tell_the_time_of_calls_without_a_profiler_and_nothing_of_the_host(tmp_path: Path) -> None:
    # What passes beside their ops they also wait for each other.
    two, ranks = spec("zero1", world_size=2), [record(0.08, rank=rank, world_size=2) for rank in (0, 1)]
    write_suite_file(tmp_path, [two.variant], [write_run(tmp_path, two, 0, ranks, RunResult(status=RunStatus.OK))])
    write_json(tmp_path / CEILINGS_FILE, ceilings())
    _trace(tmp_path, two.variant)
    (learned,) = learn_efficiencies(str(tmp_path))
    (program,) = learned.programs
    assert [sample.seconds for sample in program.samples] == [pytest.approx(0.016)]
    assert program.host_s is None


def test_all_variants_of_a_suite_are_one_program_without_those_that_were_disturbed(tmp_path: Path) -> None:
    (learned,) = learn_efficiencies(str(_suite(tmp_path, {"baseline": 0.1, "amp": 0.1, "ckpt": 0.05})))
    (program,) = learned.programs
    assert [sample.calls for sample in program.samples] == [4]


def test_a_suite_that_was_disturbed_throughout_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"\b2 threads .*\b1\.25 times"):
        learn_efficiencies(str(_suite(tmp_path, {"baseline": 0.05, "amp": 0.06})))


def test_a_suite_without_ceilings_tells_nothing_of_a_cpu(tmp_path: Path) -> None:
    suite = _suite(tmp_path, {"baseline": 0.1})
    (suite / CEILINGS_FILE).unlink()
    with pytest.raises(UnavailableError, match=r"has no ceilings\.json, .* without --no-calibrate"):
        learn_efficiencies(str(suite))


def test_threads_that_tell_nothing_leave_those_that_do(tmp_path: Path) -> None:
    told: list[str] = []
    suite = _suite(tmp_path, {"baseline": 0.1, "zero3": 0.1, "amp": 0.1}, {"zero3": 1})
    (learned,) = learn_efficiencies(str(suite), left_out=told.append)
    assert [(program.threads, program.samples[0].calls) for program in learned.programs] == [(2, 4)]
    (reason,) = told
    assert {"1"} <= {*list_figures(reason)}


def test_suites_are_found_in_the_folder_around_them_and_traces_elsewhere(tmp_path: Path) -> None:
    suite, trace = _suite(tmp_path / "runs" / "gpt", {"baseline": 0.1}), _gpu_trace(tmp_path / "model.json")
    assert list(find_sources([str(tmp_path / "runs"), str(trace)])) == [str(suite), str(trace)]


def test_what_was_learned_is_kept_and_replaced_when_the_same_program_is_learned_again() -> None:
    old, other = LearnedProgram(name="a", samples=(), host_s=1.0), LearnedProgram(name="b", samples=())
    store_learned(LearnedDevice(device="h100-sxm", device_name="H100", programs=(old, other)))
    kept = store_learned(LearnedDevice(device="h100-sxm", device_name="H100", programs=(replace(old, host_s=2.0),)))
    assert [(program.name, program.host_s) for program in kept.programs] == [("a", 2.0), ("b", None)]
    assert load_learned("h100-sxm") == kept
    assert load_learned("a100-sxm-80gb") is None
    assert get_device_path("h100-sxm").parent.name == "efficiencies"


@pytest.mark.parametrize(("ranks", "expected"), [(1, 600), (2, None)])  # of two it holds communicators as well
def test_a_suite_of_a_gpu_tells_what_a_process_takes_beside_its_allocator(
    tmp_path: Path, ranks: int, expected: int | None
) -> None:
    environment = changed(ENVIRONMENT, device="cuda", device_name="NVIDIA H100 80GB HBM3")
    memory = ProcessMemory(
        at_end=DeviceMemoryState(
            allocated=0, reserved=1000, process=make_measurement(1600, "bytes", "NVML"), device=NOT_MEASURED
        )
    )
    suite = tmp_path / "suite"
    run_spec = spec("baseline", world_size=ranks)
    records = [
        record(0.001, rank=rank, world_size=ranks, environment=environment, process_memory=memory)
        for rank in range(ranks)
    ]
    run = write_run(suite, run_spec, 0, records, RunResult(status=RunStatus.OK))
    write_suite_file(suite, [run_spec.variant], [run])
    trace = _gpu_trace(tmp_path / "model.json").read_bytes()
    (get_rank_folder(suite / get_run_path(run_spec.variant, 0), 0) / TRACE_FILE).write_bytes(gzip.compress(trace))
    (learned,) = learn_efficiencies(str(suite))
    assert [program.context_bytes for program in learned.programs] == [expected]
