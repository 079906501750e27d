"""The ranks of a bench in its report: who is slow, who waits, and what they exchange."""

from msgspec.structs import replace

from perfkit.analysis.model.fleet import CollectiveVolume, Fleet, RankRow, TimedRank
from perfkit.analysis.model.suite import Analysis
from perfkit_reports.document.blocks import Table
from perfkit_reports.render import html, markdown
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures import sample_trace_analysis
from tests.fixtures.document_blocks import blocks
from tests.fixtures.sample_analysis import realistic


def _row(rank: int, late_s: float | None) -> RankRow:
    return RankRow(
        label=f"ddp@2, rank {rank}", rank=rank, step_s=0.2, compute_s=0.1, communication_s=0.05,
        exposed_communication_s=0.02, idle_s=0.01, late_s=late_s, clock_offset_s=0.0,
        wait_s=None if late_s is None else 0.03 - late_s, last_share=None if late_s is None else late_s / 0.03,
    )  # fmt: skip


def two_ranks(late_s: float | None = 0.03) -> Analysis:
    analysis = realistic()
    first = analysis.variants[0]
    volume = CollectiveVolume(
        kind="reduce-scatter", calls=2.0, message_bytes=1024.0, theoretical_bytes=512.0, traced_bytes=1024.0,
        backend_kind="all-reduce", seconds=0.02, exposed_s=0.005, hidden_share=0.75,
    )  # fmt: skip
    ranks = tuple(TimedRank(rank=rank, host="host", step_s=0.2, cpu_s=0.1 + rank / 10, steps=40) for rank in range(2))
    fleet = Fleet(ranks=(_row(0, 0.0 if late_s else None), _row(1, late_s)), skew=(), straggler="", step_spread=0.0)
    grid = sample_trace_analysis.steps_of_ranks(2, 12)
    variant = replace(
        first, world_size=2, ranks=ranks, fleet=fleet, volumes=(volume,), steps_by_rank=grid, name=first.name
    )
    return replace(analysis, variants=(variant, *analysis.variants[1:]))


def _cells(table: Table, row: int) -> dict[str, str]:
    return {column.title: column.cell(table.rows[row]).text for column in table.columns}


def test_the_rank_that_the_others_wait_for_comes_first() -> None:
    table = blocks(build_document(two_ranks()))["ranks-0"]
    assert isinstance(table, Table)
    first = _cells(table, 0)
    assert (first["Rank"], first["Last to arrive"], first["Wait"], first["Straggler delay"]) == (
        "rank 1", "100.0 %", "0 s", "30.0 ms",
    )  # fmt: skip
    assert (first["Step"], first["CPU time"]) == ("200 ms", "200 ms")


def test_without_traces_the_timed_steps_are_told_and_the_rest_says_why_not() -> None:
    table = blocks(build_document(two_ranks(None)))["ranks-0"]
    assert isinstance(table, Table)
    (waits,) = (column for column in table.columns if column.title == "Wait")
    assert "not traced" in waits.cell(table.rows[0]).reason
    assert _cells(table, 0)["Step"] == "200 ms"


def test_what_ranks_exchange_stands_beside_theory() -> None:
    table = blocks(build_document(two_ranks()))["volumes-0"]
    assert isinstance(table, Table)
    told = _cells(table, 0)
    assert (told["Requested"], told["Theoretical"], told["Carried"], told["Executed as"], told["Hidden"]) == (
        "1.00 KiB", "512 B", "1.00 KiB", "all-reduce", "75 %",
    )  # fmt: skip


def test_a_suite_of_single_ranks_has_no_such_section() -> None:
    one_each = tuple(replace(variant, world_size=1) for variant in realistic().variants)
    assert "communication" not in {
        section.id for section in build_document(replace(realistic(), variants=one_each)).sections
    }


def test_every_format_shows_it() -> None:
    made = build_document(two_ranks())
    assert "Ranks and communication" in html.render(made)
    assert "Ranks and communication" in markdown.render(made)
