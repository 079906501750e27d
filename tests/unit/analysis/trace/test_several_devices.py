"""Each device of a trace has its own time, idle causes, roofs and utilization."""

from pathlib import Path

import pytest

from perfkit.analysis.model.idle import ELSEWHERE, OTHER_DEVICE
from perfkit.analysis.model.launches import DeviceRow
from perfkit.analysis.model.time_split import COMPUTE_BOUND, IDLE_BESIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.core.record.quantity import Measurement, Quantity
from tests.fixtures.several_gpus import (
    A100,
    A100_FLOPS,
    FLOPS,
    H100,
    H100_FLOPS,
    Recorder,
    analyze,
    record_shares,
    record_turns,
)


def value(quantity: Quantity) -> float:
    assert isinstance(quantity, Measurement)
    return quantity.value


def idle(row: DeviceRow) -> dict[str, float]:
    return {part.category: part.seconds for part in row.idle}


def split(trace: RankTrace) -> dict[str, float]:
    return {part.category: part.seconds for part in trace.time_split}


def test_busy_time_and_utilization_are_of_each_device(tmp_path: Path) -> None:
    trace = analyze(tmp_path, record_shares(3, (3, 8)))
    first, second = trace.devices
    assert [(row.number, row.critical, row.kernels) for row in trace.devices] == [(0, False, 3), (1, True, 8)]
    assert (first.busy_s, second.busy_s) == (pytest.approx(1.5e-3), pytest.approx(4e-3))
    assert value(second.mfu) == pytest.approx(8 * FLOPS / (6e-3 * H100_FLOPS))
    assert value(trace.mfu) == pytest.approx(11 * FLOPS / (6e-3 * 2 * H100_FLOPS))
    assert value(trace.model_flops) == pytest.approx(11 * FLOPS)
    assert sum(row.seconds for row in trace.kernels) == pytest.approx(5.5e-3)


def test_figures_of_the_trace_are_those_of_the_critical_device(tmp_path: Path) -> None:
    trace = analyze(tmp_path, record_shares(3, (3, 8)))
    critical = trace.devices[1]
    assert trace.time_split == critical.time_split
    assert split(trace)[COMPUTE_BOUND] == pytest.approx(4e-3)
    assert trace.launches is not None
    assert trace.launches.idle_s == critical.idle_s == pytest.approx(sum(part.seconds for part in critical.idle))
    assert trace.launches.kernels == critical.kernels
    (dot,) = (row for row in trace.summary if row.kind == "step")
    assert dot.flops == pytest.approx(8 * FLOPS)  # under the roofs of one device
    assert sum(part.seconds for part in trace.steps[0].time_split) == pytest.approx(trace.steps[0].seconds)


@pytest.mark.parametrize("ahead", [True, False], ids=["launched ahead", "launched late"])
def test_devices_that_take_turns_idle_while_the_other_works(tmp_path: Path, *, ahead: bool) -> None:
    trace = analyze(tmp_path, record_turns(ahead=ahead))
    for row in trace.devices:
        assert row.busy_s == pytest.approx(2.9e-3)
        assert idle(row)[OTHER_DEVICE] == pytest.approx(2.9e-3, rel=0.01)
        assert row.idle_s == pytest.approx(sum(idle(row).values()))
        assert sum(part.seconds for part in row.time_split) == pytest.approx(trace.step_s)
    assert split(trace)[IDLE_BESIDE] == pytest.approx(idle(trace.devices[0])[OTHER_DEVICE])
    assert value(trace.mfu) == pytest.approx(FLOPS / (trace.step_s * H100_FLOPS))


def test_turns_and_uneven_shares_are_a_finding(tmp_path: Path) -> None:
    def find(trace: RankTrace) -> float | None:
        found = [each for each in collect_trace_findings((trace,), None, None) if each.id == "devices.in_turn"]
        return found[0].gain_s if found else None

    assert find(analyze(tmp_path, record_shares(3, (4, 8)))) == pytest.approx(4e-3 - 3e-3)
    assert find(analyze(tmp_path, record_turns(ahead=True))) == pytest.approx(2.9e-3, rel=0.01)
    assert find(analyze(tmp_path, record_shares(3, (8, 8)))) is None


def test_each_kind_of_device_has_its_own_roofs(tmp_path: Path) -> None:
    trace = analyze(tmp_path, record_shares(3, (4, 8)), H100, A100)
    assert [row.name for row in trace.devices] == [H100["name"], A100["name"]]
    assert trace.device_name == A100["name"]
    of_device = {row.device: row for row in trace.kernels}
    for properties, peak, count in ((H100, H100_FLOPS, 4), (A100, A100_FLOPS, 8)):
        assert of_device[properties["name"]].attainable_s == pytest.approx(count * FLOPS / peak, rel=1e-3)
    assert {row.device: row.units for row in trace.gemms} == {H100["name"]: 132, A100["name"]: 108}
    assert value(trace.devices[0].mfu) == pytest.approx(4 * FLOPS / (6e-3 * H100_FLOPS))
    assert value(trace.mfu) == pytest.approx(12 * FLOPS / (6e-3 * (H100_FLOPS + A100_FLOPS)))


def test_a_device_that_only_copies_adds_no_peak(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.step(1, 0, 2000)
    recorder.run(0, 10, 100, 900)
    recorder.run(1, 40, 1000, 50, name="Memcpy PtoP (Device -> Device)", cat="gpu_memcpy")
    trace = analyze(tmp_path, recorder.events)
    assert [row.compute_s for row in trace.devices] == [pytest.approx(900e-6), 0.0]
    assert value(trace.mfu) == pytest.approx(FLOPS / (2e-3 * H100_FLOPS))


def test_ranks_in_one_file_that_number_their_device_alike_stay_apart(tmp_path: Path) -> None:
    """Each waits for the CPU, not for the other, which is no device of its process."""
    events = []
    for rank, count in enumerate((2, 5)):
        recorder = Recorder(process=1000 + rank, device_process=5000 * rank)
        for step in range(3):
            recorder.step(step + 1, step * 6000, 6000)
            for index in range(count):
                at = step * 6000
                recorder.run(0, at + 10 + 10 * index + 4 * rank, at + 100 + 700 * index, 700)
        events += recorder.events
    trace = analyze(tmp_path, events)
    assert [(row.number, row.process, row.kernels) for row in trace.devices] == [(0, "1000", 2), (0, "1001", 5)]
    assert [row.busy_s for row in trace.devices] == [pytest.approx(1.4e-3), pytest.approx(3.5e-3)]
    assert [row.critical for row in trace.devices] == [False, True]
    assert OTHER_DEVICE not in idle(trace.devices[0])
    assert idle(trace.devices[0])[ELSEWHERE] > 4e-3
    assert sorted(stream.kernels for stream in trace.streams) == [6, 15]
    assert not [each for each in collect_trace_findings((trace,), None, None) if each.id == "devices.in_turn"]


def test_the_critical_path_leads_over_devices_of_one_process(tmp_path: Path) -> None:
    """GPU 1 begins when GPU 0 has ended, though its work was launched long before."""
    trace = analyze(tmp_path, record_turns(1, 3000.0, 8.0, ahead=True))
    assert trace.replay is not None
    assert trace.replay.critical_path["GEMM"] == pytest.approx(2 * 2992e-6)


def test_the_critical_path_does_not_lead_to_another_rank_by_chance(tmp_path: Path) -> None:
    events = []
    for rank in (0, 1):
        recorder = Recorder(process=1000 + rank, device_process=5000 * rank)
        recorder.run(0, 10 + rank, 60 + 3000 * rank, 2992)
        events += recorder.events
    trace = analyze(tmp_path, events)
    assert trace.replay is not None
    assert trace.replay.critical_path["GEMM"] == pytest.approx(2992e-6)


def test_a_device_that_waits_in_a_collective_is_not_the_critical_one(tmp_path: Path) -> None:
    """Both are equally busy, and GPU 0 computes longer."""
    recorder = Recorder()
    recorder.step(1, 0, 5000)
    for device, computing in ((0, 3000), (1, 1000)):
        recorder.run(device, 10 + device, 100, computing)
        recorder.run(
            device, 20 + device, 100 + computing, 3900 - computing, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
        )
    trace = analyze(tmp_path, recorder.events)
    assert [row.critical for row in trace.devices] == [True, False]
    assert [row.busy_s for row in trace.devices] == [pytest.approx(3.9e-3)] * 2
    assert trace.overlap == trace.devices[0].overlap
    assert trace.overlap.exposed_communication_s == pytest.approx(0.9e-3)
    assert trace.devices[1].overlap.exposed_communication_s == pytest.approx(2.9e-3)
    (row,) = trace.collectives
    assert (row.calls, row.seconds) == (2, pytest.approx(3.8e-3))
    assert row.wall_s == row.exposed_s == pytest.approx(0.9e-3)
