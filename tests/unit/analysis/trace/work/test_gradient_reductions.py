"""How often DDP and FSDP2 reduce gradients for an optimizer step, and what FSDP2 gathers at once."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from tests.fixtures.rank_files import H100
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

MIB = 2**20
BUCKETS = (3 * MIB, 5 * MIB)  # of fp32 elements


class Program(NamedTuple):
    """The messages of each microbatch of an optimizer step, in backward and in forward; and ranges around forward."""

    reduced: Sequence[Sequence[int]]
    summed: int = 0
    wrapper: str = "DistributedDataParallel.forward"
    collective: str = "allreduce"
    gathers: Sequence[tuple[str, int]] = ()
    optimizer: str = "Optimizer.step#AdamW.step"
    requests: Sequence[float] = (230, 240, 250)  # us since the microbatch began; launched 1 us later


def write_program(path: Path, program: Program, updates: int = 3) -> Path:
    """Write a rank of two: each microbatch takes 2 ms and each collective 200 us."""
    events: list[Event] = []
    numbers = count(1)
    time = 0.0

    def communicate(name: str, elements: int, at: float, ran: float) -> list[Event]:
        number = next(numbers)
        event = op("record_param_comms", at, 4)
        fields: dict[str, Any] = {
            "Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "Group size": 2,
            "dtype": "Float", "Process Group Name": "0", "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1]",
        }  # fmt: skip
        event["args"] = {**event["args"], **fields}
        return [event, launch(number, at + 1), kernel("ncclDevKernel", number, ran, 200, stream=20)]

    def compute(at: float, ran: float) -> list[Event]:
        number = next(numbers)
        return [
            op("aten::mm", at, 4, [(64, 64), (64, 64)]),
            launch(number, at + 1),
            kernel("gemm", number, ran, 50),
        ]

    for update in range(updates):
        begin = time
        for messages in program.reduced:
            events += [mark("forward", time, 120), mark(program.wrapper, time, 100), *compute(time + 5, time + 20)]
            for place, (group, elements) in enumerate(program.gathers):
                at = time + 20 + 10 * place
                name = f"FSDP::all_gather ({group})" if group else "FSDP::all_gather"
                events.append(mark(name, at - 1, 8))
                events += communicate("_allgather_base", elements, at, time + 100 + 210 * place)
            if program.summed:
                events += communicate("allreduce", program.summed, time + 90, time + 800)
            events += [op("autograd::engine::evaluate_function: MmBackward0", time + 200, 100)]
            events += compute(time + 205, time + 1050)
            if program.summed:
                events += communicate("allreduce", program.summed, time + 215, time + 1100)
            if program.gathers:
                events.append(mark("FSDP::post_backward_reduce", time + 225, 60))
            for place, elements in enumerate(messages):
                at = time + program.requests[place]
                events += communicate(program.collective, elements, at, time + 1310 + 210 * place)
            time += 2000
        events += [mark(program.optimizer, time, 100), op("aten::_foreach_add_", time + 5, 4)]
        time += 200
        events.append(mark(f"ProfilerStep#{update}", begin, time - begin))
    job = {"backend": "nccl", "rank": 0, "world_size": 2}
    return write_trace(path, events, distributedInfo=job, deviceProperties=[{**H100, "id": 0}])


def analyze(path: Path, program: Program) -> TraceAnalysis:
    return analyze_traces(write_program(path / "trace.json", program))


def find(analysis: TraceAnalysis, finding_id: str) -> Finding | None:
    return next((finding for finding in analysis.findings if finding.id == finding_id), None)


@pytest.mark.parametrize("microbatches", [2, 5])
def test_ddp_that_reduces_each_microbatch_moves_the_gradients_as_often(tmp_path: Path, microbatches: int) -> None:
    analysis = analyze(tmp_path, Program([BUCKETS] * microbatches))
    reductions, finding = analysis.traces[0].reductions, find(analysis, "comm.accumulation")
    assert reductions is not None
    assert (reductions.wrapper, reductions.passes, reductions.reducing) == ("DDP", microbatches, microbatches)
    assert (reductions.pass_bytes, reductions.update_bytes) == (32 * MIB, microbatches * 32 * MIB)
    assert finding is not None
    # Two exposed transfers of 200 us in each pass, of which those of one pass stay.
    assert finding.figures["exposed_s"] == pytest.approx(microbatches * 400e-6)
    assert finding.gain_s is not None
    assert finding.gain_s == pytest.approx((microbatches - 1) * 400e-6)
    assert finding.simulated_s is not None
    assert finding.simulated_s <= finding.gain_s + 1e-9
    exposed = find(analysis, "comm.exposed")
    assert exposed is not None
    assert exposed.action == finding.action
    assert "no_sync" in finding.action


def test_gradients_that_are_reduced_in_the_last_microbatch_alone_are_as_they_should_be(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, Program([(), (), BUCKETS]))
    reductions = analysis.traces[0].reductions
    assert reductions is not None
    assert (reductions.passes, reductions.reducing, reductions.update_bytes) == (3, 1, 32 * MIB)
    assert find(analysis, "comm.accumulation") is None
    exposed = find(analysis, "comm.exposed")
    assert exposed is not None
    assert "bucket_cap_mb" in exposed.action


def test_a_norm_that_is_summed_after_one_microbatch_is_no_second_reduction(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, Program([(4,), (4,), (*BUCKETS, 4)]))
    reductions = analysis.traces[0].reductions
    assert reductions is not None
    assert reductions.reducing == 1


def test_sums_of_tensor_parallelism_are_no_gradients(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, Program([(), BUCKETS], summed=7 * MIB))
    (trace,) = analysis.traces
    assert trace.reductions is not None
    assert (trace.reductions.passes, trace.reductions.reducing) == (2, 1)
    assert {row.message_bytes: row.of_gradients for row in trace.collectives} == {
        28 * MIB: False, 12 * MIB: True, 20 * MIB: True,
    }  # fmt: skip


def test_without_a_wrapper_or_an_optimizer_step_nothing_is_known(tmp_path: Path) -> None:
    analysis = analyze(tmp_path, Program([BUCKETS] * 2, wrapper="forward"))
    assert analysis.traces[0].reductions is None
    assert analyze(tmp_path, Program([BUCKETS] * 2, optimizer="update")).traces[0].reductions is None


def test_fsdp2_that_reduces_each_microbatch_is_told_its_own_switch(tmp_path: Path) -> None:
    groups = [("", MIB), ("0", 6 * MIB), ("1", 5 * MIB)]
    program = Program([BUCKETS] * 3, wrapper="FSDP::pre_forward", collective="_reduce_scatter_base")
    analysis = analyze(tmp_path, program._replace(gathers=groups))
    finding = find(analysis, "comm.accumulation")
    assert finding is not None
    assert finding.figures["update_bytes"] == 3 * finding.figures["pass_bytes"]
    assert "set_requires_gradient_sync(False)" in finding.action
    assert "no_sync" not in finding.action
    gathers = analysis.traces[0].gathers
    assert gathers is not None
    assert (gathers.groups, gathers.largest) == (3, "0")
    assert (gathers.largest_bytes, gathers.all_bytes) == (24 * MIB, 48 * MIB)
    assert find(analysis, "shard.whole_gather") is None


@pytest.mark.parametrize(
    ("groups", "share"), [([("", 9 * MIB)], 1.0), ([("", MIB // 2), ("body", 19 * MIB // 2)], 0.95)]
)
def test_fsdp2_that_gathers_the_whole_model_at_once(
    tmp_path: Path, groups: list[tuple[str, int]], share: float
) -> None:
    program = Program([BUCKETS], wrapper="FSDP::pre_forward", collective="_reduce_scatter_base")
    analysis = analyze(tmp_path, program._replace(gathers=groups))
    finding = find(analysis, "shard.whole_gather")
    assert finding is not None
    assert finding.figures["share"] == pytest.approx(share)
    assert finding.figures["gather_bytes"] == 4 * groups[-1][1]
    assert finding.figures["groups"] == len(groups)


@pytest.mark.parametrize(("requests", "share"), [((280, 285, 290), 81 / 91), ((290, 290, 290), 1.0)])
def test_buckets_that_ddp_reduces_at_the_end_of_backward(
    tmp_path: Path, requests: tuple[float, ...], share: float
) -> None:
    buckets = (2 * MIB, 4 * MIB, 3 * MIB)
    finding = find(analyze(tmp_path, Program([buckets], requests=requests)), "comm.late_buckets")
    assert finding is not None
    assert finding.figures["calls"] == 3
    assert finding.figures["first_share"] == pytest.approx(share)
    assert finding.figures["last_bytes"] == 12 * MIB
    # Three exposed transfers of 200 us, of which that of the last bucket cannot overlap backward.
    assert finding.gain_s == pytest.approx(600e-6 * 6 / 9)


@pytest.mark.parametrize(
    ("buckets", "requests"),
    [(BUCKETS, (230, 290)), ((7 * MIB,), (290,)), ((2 * MIB, 4 * MIB, 3 * MIB), (210, 285, 290))],
)
def test_buckets_of_which_the_first_is_ready_early_or_alone_are_in_order(
    tmp_path: Path, buckets: tuple[int, ...], requests: tuple[float, ...]
) -> None:
    assert find(analyze(tmp_path, Program([buckets], requests=requests)), "comm.late_buckets") is None
