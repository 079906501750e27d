"""Of runs with several ranks the same one is compared."""

from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.model.comparison import Comparison
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.analysis.pipeline.stored_results import read_trace_analysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.files import write_json
from perfkit.store.summary import TRACE_REPORT_FILE
from tests.fixtures.figures import list_figures
from tests.fixtures.gpu_traces import training_file


def job(folder: Path, **slower: float) -> Path:
    """The report on a job of some ranks, by their numbers: `r0=1.0, r1=1.5`."""
    analysis = analyze_traces(str(training_file(folder.parent / "trace.json", rank=0, world_size=8)))
    (trace,) = analysis.traces
    ranks = {int(name[1:]): times for name, times in slower.items()}
    traces = [replace(trace, label=f"r{rank}", rank=rank, step_s=trace.step_s * ranks[rank]) for rank in ranks]
    write_json(folder / TRACE_REPORT_FILE, replace(analysis, traces=tuple(traces)))
    return folder


def compared(found: Comparison) -> list[int | None]:
    return [side.trace.rank for side in found.sides if side.trace is not None]


def test_the_slowest_rank_of_the_slowest_run_is_compared_with_the_same_one(tmp_path: Path) -> None:
    found = compare_runs([job(tmp_path / "a", r0=1.0, r1=1.0), job(tmp_path / "b", r0=1.0, r1=1.5)])
    assert compared(found) == [1, 1]
    assert list_figures(found.rank_note) == ["1"]
    assert [row.rank for row in found.ranks] == [0, 1]
    before, after = found.ranks[0].steps_s
    assert before == after
    before, after = found.ranks[1].steps_s
    assert before is not None
    assert after is not None
    assert after > before
    assert found.differences[0].notes == ()


def test_of_two_traces_of_a_rank_the_slower_is_compared(tmp_path: Path) -> None:
    folder = job(tmp_path / "b", r0=1.0, r1=1.2)
    analysis = read_trace_analysis(folder)
    again = replace(analysis.traces[0], label="r0 again", step_s=3 * analysis.traces[0].step_s, device_name="another")
    write_json(folder / TRACE_REPORT_FILE, replace(analysis, traces=(*analysis.traces, again)))
    found = compare_runs([job(tmp_path / "a", r0=1.0, r1=1.0), folder])
    assert compared(found) == [0, 0]
    assert [(side.subject, side.device_name) for side in found.sides][1] == ("r0 again", "another")
    assert found.ranks[0].steps_s[1] == again.step_s


def test_of_more_ranks_than_are_held_wholly_the_note_says_so(tmp_path: Path) -> None:
    many = {f"r{rank}": 1.0 + rank / 10 for rank in range(10)}
    found = compare_runs([job(tmp_path / "a", **many), job(tmp_path / "b", **many)])
    assert list_figures(found.rank_note)[-1:] == ["8"]


def test_what_one_run_does_not_have_is_not_compared(tmp_path: Path) -> None:
    found = compare_runs(
        [training_file(tmp_path / "a.json", rank=0, world_size=8), job(tmp_path / "b", r0=1.0, r1=1.5)]
    )
    assert compared(found) == [0, 0]
    assert {"0"} <= {*list_figures(found.rank_note)}
    assert [row.rank for row in found.ranks] == [0]


def test_runs_without_a_rank_in_common_say_so(tmp_path: Path) -> None:
    found = compare_runs([job(tmp_path / "a", r2=1.0, r3=1.0), job(tmp_path / "b", r0=1.0, r1=1.5)])
    assert compared(found) == [2, 0]
    assert "no common rank" in found.rank_note
    assert "difference.ranks" in [note.id for note in found.differences[0].notes]
    assert found.ranks == ()


def test_of_single_ranks_nothing_is_said(tmp_path: Path) -> None:
    found = compare_runs([training_file(tmp_path / "a.json"), training_file(tmp_path / "b.json", slower=1.5)])
    assert (found.rank_note, found.ranks) == ("", ())
