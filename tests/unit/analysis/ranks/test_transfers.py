"""How long collectives transfer, once the last rank has come, and what is gained by hiding that."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace import LAST_ARRIVAL, SHORTEST_CALL
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from tests.fixtures.rank_files import MIB, Call, write_rank

ELEMENTS = 128 * MIB  # of bf16: 256 MiB


def find(analysis: TraceAnalysis, finding_id: str) -> Finding | None:
    return next((finding for finding in analysis.findings if finding.id == finding_id), None)


def analyze(tmp_path: Path, begins: Sequence[float], transfer: float, *, devices: int = 1) -> TraceAnalysis:
    """Three steps of 10 ms, in each an all-reduce that ends `transfer` us after the last rank's begin."""
    end = max(begins) + transfer
    paths = [
        write_rank(
            tmp_path / f"rank{rank}.json",
            rank,
            len(begins),
            [[Call("allreduce", ELEMENTS, begin, end)]] * 3,
            devices=devices,
        )
        for rank, begin in enumerate(begins)
    ]
    return analyze_traces(paths, jobs=1)


def test_a_collective_transfers_from_the_last_arrival(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, (4000, 6500, 4300), 1000)
    for trace, wait_s in zip(analysis.traces, (2.5e-3, 0.0, 2.2e-3), strict=True):
        (row,) = trace.collectives
        assert (row.transfer_basis, row.transfer_s) == (LAST_ARRIVAL, pytest.approx(1e-3))
        assert row.waiting_s == pytest.approx(wait_s, abs=1e-9)
        assert row.bus_bandwidth == pytest.approx(2 * (2 / 3) * 2 * ELEMENTS / 1e-3)
    assert find(analysis, "comm.slow_link") is None
    assert find(analysis, "comm.waiting") is None


def test_to_hide_transfers_gains_no_waiting_and_to_mend_the_straggler_gains_that(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, (4000, 6500, 4300), 1000)
    exposed, straggler = find(analysis, "comm.exposed"), find(analysis, "ranks.straggler")
    assert exposed is not None
    assert straggler is not None
    assert (exposed.gain_s, exposed.simulated_s) == (pytest.approx(1e-3), pytest.approx(1e-3, rel=0.01))
    assert exposed.figures["waiting_s"] == pytest.approx(2.5e-3)
    # Rank 2 is 0.3 ms late itself: the rest is rank 1's alone.
    assert (straggler.variant, straggler.gain_s) == ("rank 1", pytest.approx(2.2e-3))
    assert straggler.figures["late_s"] == pytest.approx(2.5e-3)


def test_small_messages_that_wait_in_every_call_gain_their_transfers_alone(tmp_path: Path) -> None:
    """Rank 2 comes 0.5 to 0.8 ms late to each of four all-reduces, which transfer for 50 us each."""
    late_us = (800, 500, 600, 700)

    def call(number: int, rank: int) -> Call:
        begin, late = 1500 + 1000 * number, late_us[number]
        return Call("allreduce", 2048, begin + (late if rank == 2 else 0), begin + late + 50)

    steps = [[[call(number, rank) for number in range(4)]] * 3 for rank in range(4)]
    paths = [write_rank(tmp_path / f"rank{rank}.json", rank, 4, calls) for rank, calls in enumerate(steps)]
    analysis = analyze_traces(paths, jobs=1)
    for finding_id in ("comm.small_messages", "comm.exposed"):
        finding = find(analysis, finding_id)
        assert finding is not None
        assert (finding.gain_s, finding.simulated_s) == (pytest.approx(200e-6), pytest.approx(200e-6))
        assert finding.touched is not None
        assert finding.touched.kernels_s == pytest.approx(200e-6)
    gains = analysis.traces[0].gains
    alone = analyze_traces(paths[0]).traces[0].gains
    assert gains is not None
    assert alone is not None
    assert gains.together_s is not None
    assert alone.together_s is not None
    assert alone.by_finding["comm.small_messages"] == pytest.approx(4 * 550e-6)
    assert max(gains.by_finding.values()) <= gains.together_s <= alone.together_s - 4 * 500e-6


def test_a_slow_link_is_told_by_the_transfer(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, (3000, 3400), 3000)
    finding = find(analysis, "comm.slow_link")
    assert finding is not None
    assert finding.figures["bandwidth"] == pytest.approx(2 * ELEMENTS / 3e-3)


def test_one_rank_alone_bounds_its_transfers_by_the_shortest_equal_call(tmp_path: Path) -> None:
    calls = [[Call("allreduce", ELEMENTS, 4000, 4000 + lasted)] for lasted in (1000, 2500, 4000)]
    analysis = analyze_traces(write_rank(tmp_path / "rank0.json", 0, 4, calls))
    (row,) = analysis.traces[0].collectives
    assert (row.transfer_basis, row.transfer_s) == (SHORTEST_CALL, pytest.approx(1e-3))
    assert row.bus_bandwidth == pytest.approx(2 * (3 / 4) * 2 * ELEMENTS / 1e-3)
    exposed, waiting = find(analysis, "comm.exposed"), find(analysis, "comm.waiting")
    assert exposed is not None
    assert waiting is not None
    assert (exposed.gain_s, exposed.simulated_s) == (pytest.approx(1e-3), pytest.approx(1e-3, rel=0.01))
    assert waiting.gain_s == pytest.approx(1.5e-3)  # (0 + 1.5 + 3) / 3
    assert find(analysis, "comm.slow_link") is None


def test_waits_at_broadcasts_are_no_reason_to_ask_for_traces_that_are_there(tmp_path: Path) -> None:
    calls = [
        [Call("allreduce", ELEMENTS, 3000, 4000), Call("broadcast", ELEMENTS, 5000, 5000 + lasted)]
        for lasted in (500, 3000)
    ]
    paths = [write_rank(tmp_path / f"rank{rank}.json", rank, 2, calls) for rank in range(2)]
    alone, together = analyze_traces(paths[0]), analyze_traces(paths, jobs=1)
    assert find(alone, "comm.waiting") is not None
    assert find(together, "comm.waiting") is None


def test_a_message_that_waits_for_its_sender_is_a_bubble(tmp_path: Path) -> None:
    """Two receives a step of 32 MiB each: 0.2 ms where the sender had come, 3.2 ms where it had not."""
    first = [Call("recv", 16 * MIB, 2000, 5200), Call("recv", 16 * MIB, 6000, 9200)]
    second = [Call("recv", 16 * MIB, 3000, 3200), Call("recv", 16 * MIB, 4000, 4200)]
    paths = [
        write_rank(tmp_path / f"rank{rank}.json", rank, 2, [calls] * 3) for rank, calls in enumerate((first, second))
    ]
    analysis = analyze_traces(paths, jobs=1)
    bubble = find(analysis, "comm.bubble")
    assert bubble is not None
    assert (bubble.variant, bubble.gain_s) == ("rank 0", pytest.approx(6e-3))
    (row,) = analysis.traces[0].collectives
    assert row.transfer_s == pytest.approx(0.4e-3)
    assert find(analysis, "comm.slow_link") is None
    # The trace of rank 0 alone shows no shorter receive.
    alone = analyze_traces(paths[0])
    assert find(alone, "comm.bubble") is None
    assert find(alone, "comm.slow_link") is None


@pytest.mark.parametrize(("devices", "advised"), [(1, True), (2, False)])
def test_the_network_is_advised_on_only_where_one_may_be_in_play(tmp_path: Path, devices: int, advised: bool) -> None:
    """Two ranks on a machine of two devices share it; where one device is visible, nobody knows."""
    finding = find(analyze(tmp_path, (3000, 3400), 3000, devices=devices), "comm.slow_link")
    assert finding is not None
    assert ("NCCL_IB_HCA" in finding.action) == advised
    assert ("if the group spans nodes" in finding.action) == advised


def test_latency_and_skew_of_each_kind_and_size(tmp_path: Path) -> None:
    steps = [
        [
            Call("allreduce", ELEMENTS, 3000 + 100 * rank, 4000),
            Call("allreduce", ELEMENTS, 5000, 6000),
            Call("allreduce", MIB, 6500, 6600 + 10 * rank),
        ]
        for rank in range(3)
    ]
    paths = [write_rank(tmp_path / f"rank{rank}.json", rank, 3, [calls] * 2) for rank, calls in enumerate(steps)]
    fleet = analyze_traces(paths, jobs=1).fleet
    assert fleet is not None
    large, small = fleet.timings
    assert (large.message_bytes, large.calls, large.group_size) == (2 * ELEMENTS, 2, 3)
    assert (large.latency_s, large.start_skew_s, large.end_skew_s) == pytest.approx((0.9e-3, 0.1e-3, 0.0), abs=1e-8)
    assert (small.latency_s, small.start_skew_s, small.end_skew_s) == pytest.approx((0.1e-3, 0.0, 20e-6), abs=1e-8)
    assert large.bus_bandwidth == pytest.approx(2 * (2 / 3) * 2 * ELEMENTS / 0.9e-3)
    assert large.worst_latency_s == pytest.approx(1e-3)
