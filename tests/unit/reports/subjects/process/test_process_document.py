"""The report on a running process, from what py-spy recorded."""

from pathlib import Path

from perfkit.analysis.model.stacks import ProcessAnalysis
from perfkit.analysis.pipeline.process_stacks import analyze_process
from perfkit_reports.document.blocks import Table
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.process.process_document import build_document
from perfkit_reports.subjects.registry import load_document
from tests.fixtures.figures import list_figures
from tests.fixtures.spied_process import PID, facts, threads
from tests.fixtures.suites import changed


def analysis() -> ProcessAnalysis:
    return analyze_process(facts(), threads())


def test_the_headline_is_the_main_threads_top_line() -> None:
    made = build_document(analysis())
    assert "train.py:11" in made.headline
    assert list_figures(made.headline)[:1] == ["100 %"]
    assert made.lead == ("python train.py --lr 1e-3",)
    assert not made.warnings
    tiles = {tile.title: tile.cell.text for tile in made.tiles}
    assert tiles == {
        "CPU": "12 %",
        "Resident memory": "256 MiB",
        "GPU memory": "n/a",
        "Uptime": "90.0 s",
        "Threads": "2",
    }


def test_lines_are_by_process_and_thread_the_main_one_first() -> None:
    made = build_document(analysis())
    table = next(block for block in made.blocks if isinstance(block, Table) and block.id == "stacks-lines")
    rows = [[column.cell(row).text for column in table.columns] for row in table.rows]
    assert rows[0][:2] == ["train.py:11", f"MainThread {PID}"]
    assert any(row[:2] == ["train.py:6", "loader worker 21475"] for row in rows)


def test_what_casts_doubt_is_said() -> None:
    [told] = build_document(analyze_process(changed(facts(), has_ended=True), threads())).warnings
    assert (told.id, told.figures) == ("process.ended", {"seconds": 2.0})
    [told] = build_document(analyze_process(changed(facts(), interrupted=True), threads())).warnings
    assert (told.id, told.figures) == ("process.interrupted", {"seconds": 2.0})
    assert str(PID) in build_document(analyze_process(facts(), threads()[1:])).headline


def test_it_is_drawn_again_from_its_folder(tmp_path: Path) -> None:
    made = build_document(analysis())
    write_document(made, tmp_path)
    again = load_document(tmp_path)
    assert (again.kind, again.headline, list(again.raw)) == ("process", made.headline, list(made.raw))
