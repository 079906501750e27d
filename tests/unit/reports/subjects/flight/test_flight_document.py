"""The report on flight recorders, in every form."""

import io
import pickle
from pathlib import Path

import pytest
from rich.console import Console

from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.analysis.pipeline.flight_analysis import analyze_flight
from perfkit.store.summary import FLIGHT_REPORT_FILE
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.document import Document
from perfkit_reports.render import terminal
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.flight.flight_document import build_document
from perfkit_reports.subjects.registry import load_document
from tests.fixtures.flight_dumps import dump, entry
from tests.fixtures.sample_analysis import HOSTILE


def analysis(folder: Path, *, hostile: bool = False) -> FlightAnalysis:
    frames = ((HOSTILE, f"/home/{HOSTILE}.py", 1),) if hostile else (("loss", "/home/me/train.py", 12),)
    ranks = (
        dump(entry(0), entry(1, ended=False, frames=frames)),
        dump(entry(0, frames=frames)),
    )
    for rank, each in enumerate(ranks):
        (folder / f"dump_{rank}").write_bytes(pickle.dumps(each, 2))
    return analyze_flight([str(folder / f"dump_{rank}") for rank in range(2)])


def shown(made: FlightAnalysis) -> str:
    console = Console(file=io.StringIO(), width=140)
    terminal.render(build_document(made), console, verbose=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_headline_names_who_did_not_come(tmp_path: Path) -> None:
    made = build_document(analysis(tmp_path))
    (finding,) = analysis(tmp_path).findings
    assert finding.id == "collective.absent_rank"
    assert made.headline[1:] == f"{finding.title[1:]}."
    table = next(block for block in made.blocks if isinstance(block, Table) and block.id == "calls-1")
    rows = [[column.cell(row).text for column in table.columns][:3] for row in table.rows]
    assert rows == [["0", "all_reduce", "started"], ["1", "–", "not entered"]]
    text = shown(analysis(tmp_path))
    assert "waits in" in text
    assert "/home/me/train.py:12 (loss)" in text


def test_ranks_that_met_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "dump_0").write_bytes(pickle.dumps(dump(entry(0), groups={("0", "default_pg"): (0,)}), 2))
    analysis = analyze_flight([str(tmp_path / "dump_0")])
    assert analysis.findings == ()
    assert "All ranks" in build_document(analysis).headline


@pytest.mark.parametrize("hostile", [False, True])
def test_every_form_is_written_and_read_back(tmp_path: Path, hostile: bool) -> None:
    made = build_document(analysis(tmp_path, hostile=hostile))
    folder = tmp_path / "report"
    names = {path.relative_to(folder).as_posix() for path in write_document(made, folder)}
    assert names >= {"report.html", FLIGHT_REPORT_FILE, "summary.json", "report.md", "tables/ranks.parquet"}
    assert "<img src=x" not in (folder / "report.html").read_text()
    again = load_document(folder)
    assert (again.kind, again.headline, list(again.raw)) == ("flight", made.headline, list(made.raw))


WORLD_GROUP = ("0", "default_pg")
MANY = 150


def analyze_many(folder: Path, groups: int = 1) -> FlightAnalysis:
    """The second rank of each group never enters its last collective, and the last rank calls it elsewhere."""
    size = MANY // groups
    for rank in range(MANY):
        group = (str(1 + rank // size), "tp") if groups > 1 else WORLD_GROUP
        frames = (("other" if rank == MANY - 1 else "loss", "/home/me/train.py", 12),)
        calls = [entry(0, group=group), entry(1, group=group, ended=False, frames=frames)]
        members = {group: range(rank // size * size, rank // size * size + size)}
        made = dump(*calls[: 1 if rank % size == 1 else 2], groups=members)
        (folder / f"dump_{rank}").write_bytes(pickle.dumps(made, 2))
    return analyze_flight([str(folder / f"dump_{rank}") for rank in range(MANY)], jobs=1)


def get_table(document: Document, name: str) -> Table:
    return next(block for block in document.blocks if isinstance(block, Table) and block.id == name)


def test_ranks_at_the_same_call_share_a_row_and_all_are_in_the_data(tmp_path: Path) -> None:
    made = build_document(analyze_many(tmp_path))
    expected = ["1", "149", "0, 2-148"]
    for name in ("ranks-all", "calls-1"):
        table = get_table(made, name)
        assert [table.columns[0].cell(row).text for row in table.rows] == expected
    assert [len(row.rows) for row in get_table(made, "ranks-all").rows] == [1, 1, 148]
    assert [len(table.rows()) for table in made.data] == [MANY, MANY]
    assert made.saves == ""


def test_a_page_shows_the_calls_of_the_first_mismatches(tmp_path: Path) -> None:
    """Each of fifty groups lacks a rank."""
    made = build_document(analyze_many(tmp_path, groups=50))
    names = [block.id for block in made.blocks if isinstance(block, Table) and block.id.startswith("calls-")]
    assert names == [f"calls-{place}" for place in range(1, 41)]
