"""The load of experts over ranks."""

from pathlib import Path

import pytest

from perfkit.analysis.model.fleet import CPU_TIME, STEP
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.suite.variant import compute_volumes, sum_expert_loads
from perfkit.core.record.rank_record import ExpertLoad, RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.suite_reader import read_suite
from tests.fixtures.rank_traces import collective, rank_trace
from tests.fixtures.suites import record, spec, write_run, write_suite_file


def rank(number: int, *loads: ExpertLoad) -> RankRecord:
    return RankRecord(rank=number, world_size=2, status=RunStatus.OK, expert_loads=loads)


def load(layer: str, sent: tuple[int, ...], dropped: int, auxiliary: float | None) -> ExpertLoad:
    taken = tuple(min(each, 4) for each in sent)
    return ExpertLoad(
        layer=layer,
        tokens=8,
        routed_tokens=sent,
        accepted_tokens=taken,
        dropped_tokens=dropped,
        auxiliary_loss=auxiliary,
    )


def test_tokens_add_up_and_losses_are_averaged():
    ranks = [rank(0, load("0", (5, 3), 1, 1.5), load("1", (4, 4), 0, None)), rank(1, load("0", (2, 6), 2, 1.0))]
    assert sum_expert_loads(ranks) == ()  # ranks with other layers have no whole
    ranks[1] = rank(1, load("0", (2, 6), 2, 1.0), load("1", (8, 0), 4, None))
    assert sum_expert_loads(ranks) == (
        ExpertLoad(
            layer="0", tokens=16, routed_tokens=(7, 9), accepted_tokens=(6, 7), dropped_tokens=3, auxiliary_loss=1.25
        ),
        ExpertLoad(
            layer="1", tokens=16, routed_tokens=(12, 4), accepted_tokens=(8, 4), dropped_tokens=4, auxiliary_loss=None
        ),
    )


def test_models_without_experts_have_none():
    assert sum_expert_loads([rank(0), rank(1)]) == ()
    assert sum_expert_loads([]) == ()


def analysed(folder: Path, *runs: list[RankRecord]) -> Variant:
    ranks = len(runs[0])
    whole = spec(world_size=ranks)
    entries = [
        write_run(folder, whole, number, records, RunResult(status=RunStatus.OK)) for number, records in enumerate(runs)
    ]
    write_suite_file(folder, [whole.variant], entries)
    (variant,) = analyze_suite(folder).variants
    return variant


def timed(rank: int, *wall_s: float, ranks: int = 2, cpu: float = 0.5) -> RankRecord:
    samples = StepSamples(wall_s=wall_s, cpu_s=tuple(cpu * each for each in wall_s))
    return record(rank=rank, world_size=ranks, samples=samples)


def test_medians_are_over_all_timed_steps_of_a_rank(tmp_path: Path) -> None:
    first = [timed(0, 0.1, 0.2), timed(1, 0.1, 0.2, cpu=0.9)]
    second = [timed(0, 0.3, 0.3), timed(1, 0.3, 0.5, cpu=0.9)]
    zero, one = analysed(tmp_path, first, second).ranks
    assert (zero.rank, zero.host, zero.steps) == (0, "host", 4)
    assert (zero.step_s, zero.cpu_s) == pytest.approx((0.25, 0.125))
    assert (one.step_s, one.cpu_s) == pytest.approx((0.25, 0.225))


def test_the_map_has_the_steps_of_all_processes_one_after_another(tmp_path: Path) -> None:
    grid = analysed(tmp_path, [timed(0, 0.1, 0.2), timed(1, 0.1, 0.2)], [timed(0, 0.3, 0.3), timed(1, 0.4, 0.5)])
    assert grid.steps_by_rank is not None
    assert grid.steps_by_rank.ranks == ("rank 0", "rank 1")
    assert grid.steps_by_rank.figures[STEP] == ((0.1, 0.2, 0.3, 0.3), (0.1, 0.2, 0.4, 0.5))
    assert set(grid.steps_by_rank.figures) == {STEP, CPU_TIME}


def test_a_run_that_lacks_a_rank_or_steps_of_one_is_left_out(tmp_path: Path) -> None:
    whole, short = [timed(0, 0.1, 0.2), timed(1, 0.1, 0.2)], [timed(0, 0.3, 0.3), timed(1, 0.4)]
    variant = analysed(tmp_path, whole, short, [timed(0, 0.7, 0.7)])
    assert variant.steps_by_rank is not None
    assert variant.steps_by_rank.steps == (0, 1)
    assert variant.ranks[0].steps == 2


def test_one_rank_has_nobody_beside_it(tmp_path: Path) -> None:
    variant = analysed(tmp_path, [timed(0, 0.1, 0.2, ranks=1)])
    assert (variant.ranks, variant.steps_by_rank, variant.volumes) == ((), None, ())


def test_hundreds_of_ranks_are_thinned_and_keep_the_slow_one(tmp_path: Path) -> None:
    variant = analysed(tmp_path, [timed(rank, *[0.2 if rank == 77 else 0.1] * 6, ranks=256) for rank in range(256)])
    grid = variant.steps_by_rank
    assert grid is not None
    assert (grid.all_ranks, grid.ranks_per_row) == (256, 2)
    assert [name for name, row in zip(grid.ranks, grid.figures[STEP], strict=True) if max(row) == 0.2] == ["rank 76"]
    assert grid.worst_rank[STEP][38] == ("rank 77",) * 6


@pytest.mark.parametrize(("seen", "traced"), [(600.0, None), (9000.0, 900.0)])
def test_factors_that_a_backends_threads_send_are_counted(tmp_path: Path, seen: float, traced: float | None) -> None:
    """Three ranks: what is sent of 9,000 bytes of factors and whole gradients is seen in part, or all."""
    facts = {
        "collective_bytes:all-reduce": seen,
        "collective_volume:all-reduce": seen * 4 / 3,
        "bytes_of_factors": 9000.0,
    }
    trace = rank_trace(
        collectives=(collective("gloo:all_reduce", 0.005, calls=1.0, kind="all-reduce", volume_bytes=900.0),)
    )
    write_suite_file(
        tmp_path, ["baseline"], [write_run(tmp_path, spec(), 0, [record(facts=facts)], RunResult(status=RunStatus.OK))]
    )
    (row,) = compute_volumes(VariantRuns("baseline", read_suite(tmp_path).runs), trace)
    assert (row.message_bytes, row.theoretical_bytes, row.traced_bytes) == (9000, pytest.approx(12000), traced)


@pytest.mark.parametrize(("carried", "traced"), [(1100.0, None), (1590.0, 1590.0), (2000.0, 2000.0)])
def test_what_the_profiler_saw_in_part_of_a_loops_collectives_is_unknown(
    tmp_path: Path, carried: float, traced: float | None
) -> None:
    """Two ranks all-reduce 1,600 bytes in a step, by the flight recorder."""
    facts = {"collective_bytes:all-reduce": 1600.0, "collective_volume:all-reduce": 1600.0, "recorded_collectives": 3.0}
    seen = collective("gloo:all_reduce", 0.005, calls=1.0, kind="all-reduce", volume_bytes=carried)
    write_suite_file(
        tmp_path, ["baseline"], [write_run(tmp_path, spec(), 0, [record(facts=facts)], RunResult(status=RunStatus.OK))]
    )
    runs = VariantRuns("baseline", read_suite(tmp_path).runs)
    (row,) = compute_volumes(runs, rank_trace(collectives=(seen,)))
    assert (row.message_bytes, row.theoretical_bytes, row.traced_bytes) == (1600.0, 1600.0, traced)


def test_what_is_asked_for_stands_beside_theory_and_what_ran(tmp_path: Path) -> None:
    """Gloo reduce-scatters 1,000 bytes by an all-reduce, which carries twice as much; a broadcast is not known."""
    facts = {
        "collective_bytes:all-reduce": 400.0,
        "collective_volume:all-reduce": 400.0,
        "collective_bytes:reduce-scatter": 1000.0,
        "collective_volume:reduce-scatter": 500.0,
        "collective_bytes:all-to-all": 0.0,
    }
    made = {"calls": 1.0, "wall_s": 0.02, "seconds": 0.02, "kind": "all-reduce"}
    trace = rank_trace(
        collectives=(
            collective("gloo:all_reduce", 0.005, **made, volume_bytes=400.0),
            collective(
                "gloo:all_reduce", 0.005, **made, volume_bytes=1000.0, requested_kind="c10d::_reduce_scatter_base_"
            ),
            collective("gloo:broadcast", 0.005, **{**made, "kind": "broadcast"}, volume_bytes=None),
        )
    )
    write_suite_file(
        tmp_path, ["baseline"], [write_run(tmp_path, spec(), 0, [record(facts=facts)], RunResult(status=RunStatus.OK))]
    )
    rows = {row.kind: row for row in compute_volumes(VariantRuns("baseline", read_suite(tmp_path).runs), trace)}
    assert set(rows) == {"all-reduce", "reduce-scatter", "broadcast"}
    reduced, scattered, sent = rows["all-reduce"], rows["reduce-scatter"], rows["broadcast"]
    assert (reduced.message_bytes, reduced.theoretical_bytes, reduced.traced_bytes, reduced.backend_kind) == (
        400,
        400,
        400,
        "",
    )
    assert (scattered.theoretical_bytes, scattered.traced_bytes, scattered.backend_kind) == (500, 1000, "all-reduce")
    assert scattered.hidden_share == pytest.approx(3 / 4)
    assert (sent.message_bytes, sent.theoretical_bytes, sent.traced_bytes) == (None, None, None)
