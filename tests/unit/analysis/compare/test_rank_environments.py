from pathlib import Path

import msgspec

from perfkit.analysis.compare.rank_environments import compare_rank_environments
from perfkit.analysis.model.fleet import RankDifference
from perfkit.analysis.model.trace_analysis import MOST_FULL
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.suite.findings.measurement import find_rank_differences
from perfkit.analysis.suite.findings.suite_view import SuiteView
from tests.fixtures.rank_files import MIB, Call, write_rank
from tests.fixtures.sample_analysis import realistic
from tests.fixtures.suites import ENVIRONMENT, changed

OTHER = changed(ENVIRONMENT, torch="2.12.1", variables={"OMP_NUM_THREADS": "8", "NCCL_ALGO": "Tree"})


def test_ranks_with_other_versions_and_variables_are_named() -> None:
    usual = changed(ENVIRONMENT, variables={"OMP_NUM_THREADS": "8"})
    slow = changed(usual, device_name="Older GPU", variables={"OMP_NUM_THREADS": "1"})
    found = compare_rank_environments({"rank 0": usual, "rank 1": OTHER, "rank 2": usual, "rank 3": slow})
    assert {differs.key: (differs.values, differs.ranks) for differs in found} == {
        "torch": (("2.13.0", "2.12.1"), (("rank 0", "rank 2", "rank 3"), ("rank 1",))),
        "NCCL_ALGO": (("not set", "Tree"), (("rank 0", "rank 2", "rank 3"), ("rank 1",))),
        "device_name": (("Test CPU", "Older GPU"), (("rank 0", "rank 1", "rank 2"), ("rank 3",))),
        "OMP_NUM_THREADS": (("8", "1"), (("rank 0", "rank 1", "rank 2"), ("rank 3",))),
    }


def test_other_hosts_devices_and_processors_are_no_difference() -> None:
    first = changed(ENVIRONMENT, affinity=(0, 1), variables={"CUDA_VISIBLE_DEVICES": "0"})
    other = changed(first, hostname="node2", affinity=(2, 3), variables={"CUDA_VISIBLE_DEVICES": "1"})
    assert compare_rank_environments({"rank 0": first, "rank 1": other}) == ()
    assert compare_rank_environments({}) == ()


def test_the_first_rank_is_named_where_most_differ_from_it() -> None:
    (torch, _, _) = compare_rank_environments({"rank 0": ENVIRONMENT, "rank 1": OTHER, "rank 2": OTHER})
    assert torch.ranks == (("rank 1", "rank 2"), ("rank 0",))


def test_variants_that_share_their_ranks_share_the_finding() -> None:
    differs = (RankDifference(key="cuda", values=("12.8", "12.4"), ranks=(("rank 0", "rank 1"), ("rank 2",))),)
    first, second, third, *_ = realistic().variants
    variants = (
        first,
        msgspec.structs.replace(second, rank_differences=differs),
        msgspec.structs.replace(third, rank_differences=differs),
    )
    (finding,) = find_rank_differences(SuiteView(variants, None, None))
    assert (finding.id, finding.variant, finding.figures) == (
        "ranks.environments", second.name, {"ranks": 1, "differences": 1},
    )  # fmt: skip
    for word in ("rank 2", "12.8", "12.4"):
        assert word in finding.evidence


def test_traces_name_their_versions(tmp_path: Path) -> None:
    calls = [[Call("allreduce", MIB, 2000, 2500)]] * 2
    paths = [
        write_rank(
            tmp_path / f"rank{rank}.json", rank, 3, calls,
            cuda_driver_version=12080 if rank == 2 else 12040, cupti_version=26, trace_id=f"id {rank}",
        )
        for rank in range(3)
    ]  # fmt: skip
    analysis = analyze_traces(paths, jobs=1)
    (finding,) = (finding for finding in analysis.findings if finding.id == "ranks.environments")
    assert finding.figures == {"ranks": 1, "differences": 1}
    assert "rank 2" in finding.title
    assert "cuda_driver_version" in finding.evidence
    assert not [finding for finding in analyze_traces(paths[:2], jobs=1).findings if finding.id == "ranks.environments"]


def test_a_rank_with_another_version_of_nccl_is_of_the_same_job(tmp_path: Path) -> None:
    calls = [[Call("allreduce", MIB, 2000, 2500)]] * 2
    paths = [
        write_rank(tmp_path / f"rank{rank}.json", rank, 4, calls, nccl_version="2.26.2" if rank == 1 else "2.27.3")
        for rank in range(4)
    ]
    analysis = analyze_traces(paths, jobs=1)
    assert analysis.fleet is not None
    assert (len(analysis.fleet.ranks), analysis.other_fleets) == (4, ())
    (difference,) = analysis.fleet.differences
    assert (difference.key, difference.values) == ("nccl_version", ("2.27.3", "2.26.2"))
    (finding,) = (finding for finding in analysis.findings if finding.id == "ranks.environments")
    assert finding.figures == {"ranks": 1, "differences": 1}


def test_versions_are_compared_between_all_ranks_where_few_are_read_in_full(tmp_path: Path) -> None:
    calls = [[Call("allreduce", MIB, 2000, 2500)]] * 2
    ranks = MOST_FULL + 3
    paths = [
        write_rank(tmp_path / f"rank{rank}.json", rank, ranks, calls, cuda_runtime_version=12060 + 30 * (rank == 12))
        for rank in range(ranks)
    ]
    analysis = analyze_traces(paths, jobs=1)
    assert "rank 12" not in {trace.label for trace in analysis.traces}
    assert analysis.fleet is not None
    (difference,) = analysis.fleet.differences
    assert (difference.values, difference.ranks[1]) == (("12060", "12090"), ("rank 12",))
