import itertools
from pathlib import Path

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.ranks.job_notes import name_jobs
from perfkit.analysis.ranks.jobs import TraceOrigin, group_jobs
from perfkit_reports.subjects.trace.ranks import build_ranks_section
from tests.fixtures.rank_files import Call, write_rank

S = 1_000_000_000


def group(*origins: TraceOrigin) -> list[list[str]]:
    """The paths of each job, the same in any order of the traces."""
    found = [sorted(origins[index].path for index in job) for job in group_jobs(origins)]
    for order in itertools.islice(itertools.permutations(origins), 20):
        again = [sorted(order[index].path for index in job) for job in group_jobs(order)]
        assert sorted(again) == sorted(found)
    return sorted(found)


def origin(path: str, rank: int | None, start_s: float = 0, *, job: str = "[4]", content: str = "") -> TraceOrigin:
    return TraceOrigin(path, rank, job, int(start_s * S), int((start_s + 1) * S), hash(content or path))


def test_files_that_state_different_jobs_are_of_different_ones() -> None:
    small = [origin(f"t/x{rank}", rank, job="[2]") for rank in (0, 1)]
    large = [origin(f"t/y{rank}", rank, job="[3]") for rank in (2, 3)]
    assert group(*small, *large) == [["t/x0", "t/x1"], ["t/y2", "t/y3"]]


def test_a_rank_that_occurs_twice_is_of_two_jobs_by_folder_name_or_time() -> None:
    folders = [origin(f"{name}/{rank}.json", rank) for name in ("a", "b") for rank in (0, 1)]
    assert group(*folders) == [["a/0.json", "a/1.json"], ["b/0.json", "b/1.json"]]
    names = [origin(f"t/run{run}-{rank}.json", rank) for run in ("x", "y") for rank in (0, 1)]
    assert group(*names) == [["t/runx-0.json", "t/runx-1.json"], ["t/runy-0.json", "t/runy-1.json"]]
    times = [origin(f"t/{name}.json", rank, start) for name, rank, start in
             (("p", 0, 10), ("q", 1, 10.5), ("r", 0, 900), ("s", 1, 900.1))]  # fmt: skip
    assert group(*times) == [["t/p.json", "t/q.json"], ["t/r.json", "t/s.json"]]


def test_two_recordings_of_many_ranks_are_told_apart_without_comparing_all_pairs() -> None:
    ranks = 600
    origins = [
        origin(f"t/rank{rank}_step{step}.json", rank, 10 * place)
        for place, step in enumerate((40, 90))
        for rank in range(ranks)
    ]
    assert group_jobs(origins) == [[*range(ranks)], [*range(ranks, 2 * ranks)]]


def test_clocks_that_differ_by_hours_make_no_second_job() -> None:
    assert group(origin("t/0", 0), origin("t/1", 1, 9000), origin("t/2", 2, -9000)) == [["t/0", "t/1", "t/2"]]


def test_traces_recorded_at_other_times_of_the_day_are_of_other_jobs() -> None:
    dated = [
        origin(f"t/{rank}", rank, start)._replace(has_date=True) for rank, start in enumerate((7, 9, 900, 30, 905))
    ]
    assert group(*dated) == [["t/0", "t/1", "t/3"], ["t/2", "t/4"]]


def test_an_id_that_ranks_share_is_that_of_their_job() -> None:
    shared = [origin(f"t/{rank}", rank)._replace(trace_id=name) for rank, name in enumerate("aabb")]
    assert group(*shared) == [["t/0", "t/1"], ["t/2", "t/3"]]
    own = [origin(f"t/{rank}", rank)._replace(trace_id=name) for rank, name in enumerate("abcd")]
    assert group(*own) == [["t/0", "t/1", "t/2", "t/3"]]


def test_a_copy_of_a_trace_and_one_without_a_job_belong_to_the_only_job() -> None:
    assert group(origin("t/0", 0), origin("copy/0", 0, content="t/0"), origin("t/1", 1), origin("t/2", 2, job="")) == [
        ["copy/0", "t/0", "t/1", "t/2"]
    ]


def test_ranks_with_another_version_are_of_one_job_unless_they_repeat() -> None:
    one = [origin(f"t/{rank}", rank)._replace(version="2.21.5" if rank == 3 else "2.19.3") for rank in range(5)]
    assert group(*one) == [[f"t/{rank}" for rank in range(5)]]
    two = [
        origin(f"t/{version}-{rank}", rank)._replace(version=version) for version in ("2.19", "2.21") for rank in (2, 4)
    ]
    assert group(*two) == [["t/2.19-2", "t/2.19-4"], ["t/2.21-2", "t/2.21-4"]]
    mixed = [
        origin(f"{folder}/{rank}", rank)._replace(version=f"2.{rank // 2}") for folder in "xy" for rank in range(4)
    ]
    assert group(*mixed) == [[f"{folder}/{rank}" for rank in range(4)] for folder in "xy"]


def test_traces_without_ranks_stay_together() -> None:
    assert group(origin("t/0", None, job=""), origin("t/1", None, 5, job="")) == [["t/0", "t/1"]]


def test_jobs_are_named_after_folders_or_what_begins_their_files() -> None:
    assert name_jobs([["x/a/0", "x/a/1"], ["x/b/0"]]) == ["a", "b"]
    assert name_jobs([["t/old_rank0.json", "t/old_rank1.json"], ["t/new_rank0.json", "t/new_rank1.json"]]) == [
        "old",
        "new",
    ]
    assert name_jobs([["t/0", "t/1"], ["t/2"]]) == ["job 1", "job 2"]
    assert name_jobs([["t/0", "t/1"]]) == [""]


def test_ranks_are_compared_within_each_job(tmp_path: Path) -> None:
    """In job x rank 1 is late, in job y rank 2, a minute later."""
    paths = []
    for name, late, begin_us in (("x", 1, 0), ("y", 2, 60e6)):
        for rank in range(3):
            calls = [[Call("allreduce", 2**22, 4000 if rank == late else 3000, 4500)]] * 3
            paths.append(write_rank(tmp_path / f"{name}-rank{rank}.json", rank, 3, calls, begin_us=begin_us))
    analysis = analyze_traces(paths, jobs=1)
    assert [(fleet.job, len(fleet.ranks), fleet.straggler) for fleet in analysis.fleets] == [
        ("x", 3, "rank 1 (x-rank1)"),
        ("y", 3, "rank 2 (y-rank2)"),
    ]
    assert [fleet.notes for fleet in analysis.fleets] == [(), ()]
    assert ("trace.several_jobs", {"jobs": 2, "traces": 6}) in [(note.id, note.figures) for note in analysis.warnings]
    stragglers = [finding.variant for finding in analysis.findings if finding.id == "ranks.straggler"]
    assert sorted(stragglers) == ["rank 1 (x-rank1)", "rank 2 (y-rank2)"]
    assert {trace.replay.ranks for trace in analysis.traces if trace.replay is not None} == {3}
    section = build_ranks_section(analysis)
    assert section is not None
    assert [block.id for block in section.blocks] == ["ranks-job0", "ranks-job1"]
