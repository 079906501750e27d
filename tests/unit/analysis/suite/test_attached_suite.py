"""Suites of loops that perfkit was attached to: figures, FLOPs and findings from their own traces, later captures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.loop import LiveSummary
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline import read_passes
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.ranks.joint_simulation import RankReplay
from perfkit.core.files import write_json
from perfkit.core.record.attached_loop import AttachedLoop, TokenCounts
from perfkit.core.record.memory import MemoryPeaks
from perfkit.core.record.quantity import Measurement, Unknown, make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus, WorkloadFacts
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.instruments.stacks.collapsed_stacks import read_collapsed
from perfkit.store.layout import CEILINGS_FILE, TRACE_FILE, get_rank_folder
from perfkit.store.live import LIVE_FILE, LiveEvent, LiveStart, LiveWindow
from perfkit.store.stacks import LOOP, STACKS_FILE, SampledStacks
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import CEILINGS, record, spec, write_run, write_suite_file
from tests.fixtures.traces import Event, mark, op, write_trace

# A product of 100 x 100 matrices: 2e6 FLOPs. A traced step of 1000 us does two of them and waits 300 us for data.
SQUARE = (100, 100)
STEP: list[Event] = [
    mark("perfkit::step#3", 0, 1000),
    mark("perfkit::data", 0, 300),
    mark("perfkit::forward", 300, 300),
    mark("perfkit::backward", 600, 400),
    op("aten::mm", 310, 200, [SQUARE, SQUARE]),
    op("aten::mm", 610, 300, [SQUARE, SQUARE]),
]
FLOPS = 4e6
ENDED_WELL = RunResult(status=RunStatus.OK)


def loop_record(step_s: float | Sequence[float] = 0.0005, **more: Any) -> RankRecord:
    told = more.pop(
        "attached_loop", AttachedLoop(step_marker="the steps of SGD", optimizers=("SGD, 2 parameters",), steps_seen=9)
    )
    return record(step_s, attached_loop=told, flops=None, losses=(), **more)


def write(
    folder: Path,
    captures: Mapping[str, Sequence[RankRecord]],
    events: Sequence[Event] | None = STEP,
    *,
    traced: Sequence[int] = (0, 1),
    run: RunResult | None = ENDED_WELL,
) -> Analysis:
    """A suite of captures of one loop, of which the first is the beginning."""
    entries = []
    for name, records in captures.items():
        whole = RunSpec(workload=WorkloadSpec(name=name), launch=LaunchSpec(world_size=len(records)))
        entry = write_run(folder, whole, 0, records, run)
        path = folder / name / "0"
        (folder / entry.path).parent.rename(folder / name)
        entries.append(type(entry)(variant=name, repeat=0, path=f"{name}/0"))
        for each in records:
            if events is not None and each.rank in traced:
                write_trace(get_rank_folder(path, each.rank) / TRACE_FILE, events)
    first = next(iter(captures))
    write_suite_file(folder, list(captures), entries, dict.fromkeys(list(captures)[1:], first))
    write_json(folder / CEILINGS_FILE, CEILINGS)
    return analyze_suite(folder)


def told(analysis: Analysis, finding_id: str) -> Finding:
    return next(finding for finding in analysis.findings if finding.id == finding_id)


def ids(analysis: Analysis) -> list[str]:
    return [finding.id for finding in analysis.findings]


def test_flops_come_from_the_trace_and_utilization_from_the_timed_step(tmp_path: Path) -> None:
    (train,) = write(tmp_path, {"train": [loop_record(0.0005)]}).variants
    assert isinstance(train.model_flops, Measurement)
    assert (train.model_flops.value, train.model_flops.how) == (FLOPS, "modeled")
    assert isinstance(train.mfu, Measurement)
    assert train.mfu.value == pytest.approx(FLOPS / 0.0005 / 1e11)  # not over the traced step of 1000 us
    assert "fp32 matrix peak" in train.mfu_peak
    assert (train.traced_step.step_s, train.traced_step.timed_ratio) == (pytest.approx(0.0005), pytest.approx(0.5))
    assert len(train.ops) == 2
    assert train.active is None


def test_flops_of_several_ranks_add_up_and_need_every_rank(tmp_path: Path) -> None:
    ranks = [loop_record(0.0005, rank=rank, world_size=2) for rank in (0, 1)]
    (whole,) = write(tmp_path / "a", {"train": ranks}).variants
    assert isinstance(whole.mfu, Measurement)
    assert whole.mfu.value == pytest.approx(2 * FLOPS / 0.0005 / 2e11)
    (part,) = write(tmp_path / "b", {"train": ranks}, traced=(0,)).variants
    assert isinstance(part.model_flops, Unknown)
    assert list_figures(part.model_flops.reason) == ["1", "2"]
    assert isinstance(part.mfu, Unknown)


def test_bf16_products_are_held_against_the_bf16_peak(tmp_path: Path) -> None:
    events = [*STEP[:4], op("aten::mm", 310, 200, [SQUARE, SQUARE], "c10::BFloat16")]
    (train,) = write(tmp_path, {"train": [loop_record(0.001)]}, events).variants
    assert isinstance(train.mfu, Measurement)
    assert train.mfu.value == pytest.approx(2e6 / 0.001 / 2e11)


def test_without_a_trace_flops_say_why_they_are_not_known(tmp_path: Path) -> None:
    (train,) = write(tmp_path, {"train": [loop_record()]}, None).variants
    assert isinstance(train.model_flops, Unknown)
    assert train.model_flops.reason
    assert isinstance(train.step_time, MedianEstimate)


def test_throughput_is_not_known_where_nobody_counted_units(tmp_path: Path) -> None:
    nobody = AttachedLoop(step_marker="the steps of SGD", units_source="unknown: no DataLoader")
    facts = WorkloadFacts(unit="", units_per_batch=0, parameters=5)
    analysis = write(tmp_path, {"train": [loop_record(workload=facts, attached_loop=nobody)]})
    throughput = analysis.variants[0].throughput
    assert isinstance(throughput, MissingEstimate)
    assert throughput.reason.endswith("unknown: no DataLoader")
    assert (analysis.variants[0].throughput_unit, analysis.pareto) == ("", ())


def test_waiting_for_data_is_told_as_timed_and_others_as_parts_of_a_timed_step(tmp_path: Path) -> None:
    waits = AttachedLoop(step_marker="the steps of SGD", data_wait_s=(0.0001, 0.0001, 0.0001, 0.0003))
    analysis = write(tmp_path, {"train": [loop_record(0.0005, attached_loop=waits)]})
    waiting = told(analysis, "data.starved")
    assert waiting.figures["share"] == pytest.approx(0.3)
    assert waiting.figures["wait_s"] == pytest.approx(0.00015)
    assert waiting.gain_s == pytest.approx(0.00015)
    assert "num_workers" in waiting.action
    assert ids(analysis).count("data.starved") == 1
    # In the trace 200 of 1000 us are the host's beside the 300 of the data; a timed step takes half as long.
    host = told(analysis, "cpu.dispatch")
    assert host.figures == {"idle_s": pytest.approx(0.0001), "share": pytest.approx(0.2)}
    assert host.gain_s == pytest.approx(0.0001)
    # The replay has the same of the traced step, told as the same parts of a timed one.
    assert waiting.simulated_s == pytest.approx(0.00015, rel=0.05)
    assert host.simulated_s == pytest.approx(0.0001, rel=0.05)
    traced = analysis.variants[0].traced_step
    assert traced is not None
    assert traced.gains is not None
    assert 0.00025 <= (traced.gains.together_s or 0.0) <= sum(traced.gains.by_finding.values()) + 1e-9
    assert not any(waiting.title in detail for detail in host.details)
    assert not any(host.title in detail for detail in waiting.details)
    split = {part.category: part.share for part in analysis.variants[0].time_split}
    assert split["waiting for data"] == pytest.approx(0.3)
    assert sum(split.values()) == pytest.approx(1)
    assert len(set(ids(analysis))) == len(ids(analysis))  # no rule speaks twice


def test_the_gain_of_a_slower_rank_is_a_part_of_its_own_traced_step(tmp_path: Path) -> None:
    ranks = [loop_record(0.001, rank=rank, world_size=2) for rank in (0, 1)]
    write(tmp_path, {"train": ranks})
    late = [mark("perfkit::step#3", 0, 4000), *STEP[1:5], op("aten::mm", 610, 300, [SQUARE, SQUARE])]
    write_trace(tmp_path / "train/0/rank1" / TRACE_FILE, late)
    host = told(analyze_suite(tmp_path), "cpu.dispatch")
    assert host.variant == "train, rank 1"
    assert host.gain_s == pytest.approx(0.001 * 3200 / 4000)


@pytest.mark.parametrize(("ranks", "kept"), [(2, 2), (3, 0)])
def test_of_more_ranks_than_are_simulated_together_each_is_simulated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, kept: int
) -> None:
    monkeypatch.setattr(read_passes, "MOST_RANKS", 2)
    seen: list[RankReplay] = []

    def simulated(traces: list[RankTrace], arrivals: object, replays: Sequence[RankReplay | None]) -> list[RankTrace]:
        seen.extend(replay for replay in replays if replay is not None)
        return traces

    monkeypatch.setattr(read_passes, "simulate_jointly", simulated)
    records = [loop_record(rank=rank, world_size=ranks) for rank in range(ranks)]
    write(tmp_path, {"run": records}, traced=range(ranks))
    assert len(seen) == kept


def test_little_waiting_is_not_told(tmp_path: Path) -> None:
    little = AttachedLoop(step_marker="the steps of SGD", data_wait_s=(0.00001,) * 4)
    analysis = write(tmp_path, {"train": [loop_record(0.0005, attached_loop=little)]})
    assert "data.starved" not in ids(analysis)


def test_waiting_is_told_without_a_trace_too(tmp_path: Path) -> None:
    waits = AttachedLoop(step_marker="the steps of SGD", data_wait_s=(0.2,) * 4)
    analysis = write(tmp_path, {"train": [loop_record(0.5, attached_loop=waits)]}, None)
    assert told(analysis, "data.starved").gain_s == pytest.approx(0.2)


def test_single_long_steps_and_evaluations_are_told(tmp_path: Path) -> None:
    evaluated = AttachedLoop(step_marker="the steps of SGD", excluded_steps_s=(2.0, 3.0))
    steps = (0.1,) * 9 + (0.6,)
    analysis = write(tmp_path, {"train": [loop_record(steps, attached_loop=evaluated)]}, None)
    long = told(analysis, "steps.outliers")
    assert long.gain_s == pytest.approx(0.05)
    assert long.figures == {
        "steps": 1, "shortest": pytest.approx(6), "longest": pytest.approx(6), "excess_s": pytest.approx(0.05),
    }  # fmt: skip
    assert "150 ms" in long.evidence
    assert "100 ms" in long.evidence
    left_out = told(analysis, "steps.evaluation")
    assert left_out.figures == {"steps": 2, "longest_s": 3.0}
    assert "100 ms" in left_out.evidence


def test_padding_and_garbage_collection(tmp_path: Path) -> None:
    loop = AttachedLoop(step_marker="the steps of SGD", padded_share=0.5, collection_s=(0.02,) * 4)
    analysis = write(tmp_path, {"train": [loop_record(0.1, attached_loop=loop)]}, None)
    padding = told(analysis, "data.padding")
    assert padding.gain_s == pytest.approx(0.05)
    assert [(gain.low, gain.high) for gain in padding.gains] == [(0.0, pytest.approx(0.075))]
    assert told(analysis, "loop.garbage_collection").gain_s == pytest.approx(0.02)


def test_little_padding_and_few_collections(tmp_path: Path) -> None:
    loop = AttachedLoop(step_marker="the steps of SGD", padded_share=0.1, collection_s=(0.002,) * 4)
    found = ids(write(tmp_path, {"train": [loop_record(0.1, attached_loop=loop)]}, None))
    assert not {"data.padding", "loop.garbage_collection"} & set(found)


def test_what_the_thread_does_besides_training(tmp_path: Path) -> None:
    write(tmp_path, {"train": [loop_record(0.1)]}, None)
    text = "train (/home/me/t.py:3) 60\ntrain (/home/me/t.py:3);deepcopy (/usr/lib/python3.12/copy.py:9) 40\n"
    text = "".join(f'process 7:"x";thread (7): MainThread;{line}\n' for line in text.splitlines())
    [thread] = read_collapsed(text, pid=7, hz=100.0, seconds=1.0, directory="/home/me")
    sampled = SampledStacks(threads=(msgspec.structs.replace(thread, thread=LOOP),), seconds=1.0)
    write_json(get_rank_folder(tmp_path / "train" / "0", 0) / STACKS_FILE, sampled)
    copies = told(analyze_suite(tmp_path), "loop.deep_copies")
    assert copies.gain_s == pytest.approx(0.04)
    assert copies.figures == {"share": pytest.approx(0.4), "samples": 100}
    [gain] = copies.gains
    assert gain.low == 0.0
    assert gain.high == pytest.approx(0.0498, abs=1e-4)  # Wilson: 40 of 100 are at most 49.8 %


def test_padding_is_told_with_the_most_that_it_can_save(tmp_path: Path) -> None:
    tokens = TokenCounts(batches=8, computed=4000, padding=2480, labeled=1000)
    padded = AttachedLoop(step_marker="the steps of SGD", tokens=tokens, fetches=(2,) * 4, data_wait_s=(0.1,) * 4)
    analysis = write(tmp_path, {"train": [loop_record(0.5, attached_loop=padded)]}, None)
    found = told(analysis, "data.padding")
    assert found.severity == "gain"
    assert found.gain_s == pytest.approx(0.62 * (0.5 - 0.1))
    assert found.figures == {
        "share": 0.62, "positions": 1000.0, "padding": 620.0, "throughput_ratio": pytest.approx(1 / 0.38),
    }  # fmt: skip
    loop = analysis.variants[0].loop
    assert loop is not None
    assert (loop.tokens.computed, loop.tokens.padding, loop.tokens.labeled) == (1000.0, 620.0, 250.0)


def test_a_gain_of_padding_is_at_most_what_padding_is_in(tmp_path: Path) -> None:
    """By hand: the traced step computes for 400 us, a quarter of it in the optimizer, and half of the positions are
    padding: of the timed 0.5 s, of which 0.1 s wait for data, 0.3 s depend on the batch."""
    tokens = TokenCounts(batches=4, computed=4000, padding=2000)
    padded = AttachedLoop(step_marker="the steps of SGD", tokens=tokens, fetches=(1,) * 4, data_wait_s=(0.1,) * 4)
    write(tmp_path, {"train": [loop_record(0.5, attached_loop=padded)]}, None)
    step = [mark("perfkit::step#1", 0, 1000)]
    for place, phase in enumerate(("forward", "forward", "backward", "optimizer")):
        step += [
            mark(f"perfkit::{phase}", 100 + 200 * place, 100),
            op("aten::mm", 100 + 200 * place, 100, [SQUARE, SQUARE]),
        ]
    write_trace(tmp_path / "train/0/rank0" / TRACE_FILE, step)
    found = told(analyze_suite(tmp_path), "data.padding")
    assert found.gain_s == pytest.approx(0.5 * 0.3)
    (gain,) = found.gains
    assert gain.high == pytest.approx(0.75 * 0.3)


@pytest.mark.parametrize("padding", [None, 0, 300])
def test_little_or_unknown_padding_is_not_told(tmp_path: Path, padding: int | None) -> None:
    tokens = TokenCounts(batches=4, computed=4000, padding=padding)
    loop = AttachedLoop(step_marker="the steps of SGD", tokens=tokens, fetches=(1,) * 4)
    assert "data.padding" not in ids(write(tmp_path, {"train": [loop_record(0.5, attached_loop=loop)]}, None))


def test_a_later_capture_is_compared_with_the_first(tmp_path: Path) -> None:
    slow = AttachedLoop(step_marker="the steps of SGD", trigger="a step of 3 times the usual")
    first, later = write(
        tmp_path, {"train": [loop_record(0.1)], "train@step1234": [loop_record(0.15, attached_loop=slow)]}
    ).variants
    assert (first.is_baseline, later.is_baseline) == (True, False)
    assert (later.difference.baseline, later.difference.ratio) == ("train", pytest.approx(1.5))
    found = told(analyze_suite(tmp_path), "steps.slower_capture")
    assert (found.severity, found.variant) == ("warning", "train@step1234")
    assert found.figures == {"step_s": pytest.approx(0.15), "first_step_s": pytest.approx(0.1)}
    assert slow.trigger in found.evidence
    assert "comparison.inconclusive" not in ids(analyze_suite(tmp_path))


def test_the_ops_that_grew_are_named(tmp_path: Path) -> None:
    captures = {"train": [loop_record(0.001)], "train@step9": [loop_record(0.002)]}
    write(tmp_path, captures)
    grown = [mark("perfkit::step#9", 0, 2000), *STEP[1:5], op("aten::mm", 610, 1300, [SQUARE, SQUARE])]
    write_trace(tmp_path / "train@step9/0/rank0" / TRACE_FILE, grown)
    found = told(analyze_suite(tmp_path), "steps.slower_capture")
    assert found.figures == {"step_s": pytest.approx(0.002), "first_step_s": pytest.approx(0.001)}
    assert "aten::mm" in found.evidence


def test_a_run_without_an_end_still_runs_or_was_killed(tmp_path: Path) -> None:
    (train,) = write(tmp_path, {"train": [loop_record()]}, run=None).variants
    assert (train.status, "killed" in train.reason) == (RunStatus.INTERRUPTED, True)
    assert isinstance(train.step_time, MedianEstimate)


def test_a_loop_that_ran_out_of_memory_says_so_and_keeps_its_steps(tmp_path: Path) -> None:
    ended = RunResult(status=RunStatus.OUT_OF_MEMORY, reason="CUDA out of memory")
    peaks = MemoryPeaks(
        allocated=make_measurement(100, "bytes", "x"),
        reserved=make_measurement(200, "bytes", "x"),
        driver_used=Unknown(reason="x"),
        rss=make_measurement(300, "bytes", "x"),
    )
    lost = loop_record(0.1, status=RunStatus.OUT_OF_MEMORY, memory=peaks, samples=StepSamples(wall_s=(0.1,)))
    analysis = write(tmp_path, {"train": [lost]}, None, run=ended)
    assert isinstance(analysis.variants[0].step_time, MedianEstimate)
    assert told(analysis, "variant.out_of_memory").severity == "warning"


def test_bench_variants_of_other_ranks_keep_their_baselines(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, spec(), 0, [record()], RunResult(status=RunStatus.OK))]
    write_suite_file(tmp_path, ["baseline"], runs, {"baseline": "baseline"})
    (baseline,) = analyze_suite(tmp_path).variants
    assert (baseline.is_baseline, baseline.loop) == (True, None)


def test_a_loop_that_drifted_while_it_was_watched_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {"train": [loop_record(0.1)]}, None)
    steps = [(100, 0.1)] * 8 + [(100, 0.3)] * 2
    lines = [
        LiveStart(time_s=0.0, pid=1, hostname="here", name="train", device_name="cpu"),
        *(LiveWindow(time_s=1.0, last_step=0, steps=count, step_s=step, step_max_s=step) for count, step in steps),
        LiveEvent(time_s=2.0, step=800, kind="drift", text="steps take 200% longer"),
        LiveEvent(time_s=2.0, step=1000, kind="end", text="the loop ended"),
    ]
    log = tmp_path / "train/0/rank0" / LIVE_FILE
    log.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    analysis = analyze_suite(tmp_path)
    loop = analysis.variants[0].loop
    assert loop.live_log == LiveSummary(steps=1000, first_s=0.1, last_s=0.3, drifts=("steps take 200% longer",))
    found = told(analysis, "steps.drift")
    assert (found.severity, found.figures) == ("warning", {"first_s": 0.1, "last_s": 0.3, "steps": 1000})
    assert loop.live_log.drifts[0] in found.evidence


def test_memory_that_ran_out_before_anything_was_recorded_says_what_to_change(tmp_path: Path) -> None:
    run = RunResult(status=RunStatus.OUT_OF_MEMORY, reason="RuntimeError: out of memory")
    found = told(write(tmp_path, {"train": [loop_record(())]}, None, run=run), "variant.out_of_memory")
    assert "RuntimeError" not in found.evidence  # which stands in the headline's remarks
    assert "torch.utils.checkpoint" in found.action
    assert "--technique" not in found.action


def test_the_slowest_rank_under_an_instrument_is_held_against_the_slowest_of_the_timed_steps(tmp_path: Path) -> None:
    ranks = [
        loop_record(
            step,
            rank=rank,
            world_size=2,
            attached_loop=AttachedLoop(step_marker="SGD", instrumented_s={"trace": (0.03,) * 2}),
        )
        for rank, step in enumerate((0.01, 0.02))
    ]
    (train,) = write(tmp_path, {"train": ranks}, None).variants
    (slow,) = train.loop.slowdowns
    assert isinstance(train.step_time, MedianEstimate)
    assert slow.ratio == pytest.approx(slow.seconds / train.step_time.value) == pytest.approx(1.5)


def test_who_waits_for_whom_in_numbers_that_can_be_added_up_by_hand(tmp_path: Path) -> None:
    """Rank 1 computes 300 us longer; before that its profiler began 5 ms late, for which no one is to blame."""
    ranks = [loop_record(0.0005, rank=rank, world_size=2) for rank in (0, 1)]
    write(tmp_path, {"train": ranks})
    for rank, (computes, waits) in enumerate(((200, 400), (500, 100))):
        events = [
            mark("perfkit::lead step", -6000, 6000),
            mark("gloo:all_reduce", -5500 + 5000 * rank, 5500 - 5000 * rank, thread=2),
            mark("perfkit::step#3", 0, 1000),
            op("aten::mm", 100, computes, [SQUARE, SQUARE]),
            mark("gloo:all_reduce", 100 + computes, waits, thread=2),
            op("aten::mm", 900, 50, [SQUARE, SQUARE]),
        ]
        write_trace(tmp_path / f"train/0/rank{rank}" / TRACE_FILE, events)
    analysis = analyze_suite(tmp_path)
    (train,) = analysis.variants
    split = {part.category: round(part.seconds * 1e6) for part in train.time_split}
    assert (split["communication"], split["Python and dispatch"], train.traced_step.step_s) == (
        200,
        175,
        pytest.approx(0.0005),
    )
    late = told(analysis, "ranks.straggler")
    assert late.variant == "train, rank 1"
    assert late.gain_s == pytest.approx(0.0003 / 2)  # a timed step takes half as long
    assert late.figures == {"late_s": pytest.approx(0.00015), "compute_s": pytest.approx(0.000275)}
    assert "30.0 %" in late.evidence
    assert told(analysis, "comm.exposed").gain_s == pytest.approx(0.0004 / 2)


def test_flops_of_traced_steps_are_not_those_of_steps_with_inputs_of_other_shapes(tmp_path: Path) -> None:
    changing = AttachedLoop(step_marker="the steps of SGD", shapes_changed=True)
    analysis = write(tmp_path, {"train": [loop_record(attached_loop=changing)]})
    (train,) = analysis.variants
    assert isinstance(train.model_flops, Unknown)
    assert isinstance(train.hardware_flops, Unknown)
    assert isinstance(train.mfu, Unknown)
    assert "shape" in train.mfu.reason
