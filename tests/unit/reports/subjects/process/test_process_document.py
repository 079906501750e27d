"""The report on a running process, from what py-spy recorded."""

from pathlib import Path

import msgspec

from perfkit.analysis.model.stacks import ProcessAnalysis
from perfkit.analysis.pipeline.process_stacks import analyze_process
from perfkit.instruments.stacks.collapsed_stacks import read_collapsed
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


RANKS = """\
process 50:"torchrun";thread (50): MainThread;<module> (/usr/bin/torchrun:8);_monitor (/opt/elastic.py:9) 40
process 50:"torchrun";process 51:"python";thread (51): MainThread;loss (/home/me/job.py:7);{0} 40
process 50:"torchrun";process 52:"python";thread (52): MainThread;loss (/home/me/job.py:7);{0} 30
process 50:"torchrun";process 52:"python";thread (52): MainThread;other (/home/me/job.py:9) 10
process 50:"torchrun";process 53:"python";thread (53): MainThread;save (/home/me/job.py:3);{1} 40
process 50:"torchrun";process 53:"python";process 54:"python";thread (54): MainThread;read (/home/me/job.py:1) 40
""".format(
    "all_reduce (/opt/site-packages/torch/distributed/c.py:1)", "save (/opt/site-packages/torch/serialization.py:1)"
)


def test_of_a_launcher_the_ranks_are_named_and_it_is_left_out() -> None:
    launcher = changed(facts(), pid=50, ranks={51: 0, 52: 1, 53: 2, 54: 2}, rank_pids=(51, 52, 53))
    sampled = read_collapsed(RANKS, pid=50, hz=20.0, seconds=2.0, directory="/home/me")
    made = analyze_process(launcher, sampled)
    assert [(thread.pid, thread.rank, thread.main) for thread in made.threads] == [
        (51, 0, True),
        (52, 1, True),
        (53, 2, True),
        (54, 2, False),
    ]
    [finding] = made.findings
    assert (finding.id, finding.figures) == ("main_thread.checkpoint", {"share": 1.0, "samples": 40})
    assert finding.evidence.startswith("rank 2: ")
    document = build_document(made)
    odd, others = document.headline.split("; ")
    assert (odd.startswith("Rank 2: 100 % "), "job.py:3" in odd) == (True, True)
    assert (others.startswith("ranks 0 and 1: 88 % "), "job.py:7" in others) == (True, True)
    assert "ranks 0, 1 and 2" in document.lead[1]


def test_ranks_that_a_program_spawned_are_indices_or_of_unknown_rank() -> None:
    ranks = {51: 4, 52: None, 53: None, 54: None}
    spawner = changed(facts(), pid=50, ranks=ranks, rank_pids=(51, 52, 53), spawned=True)
    sampled = read_collapsed(RANKS, pid=50, hz=20.0, seconds=2.0, directory="/home/me")
    made = analyze_process(spawner, sampled)
    assert [(thread.pid, thread.rank, thread.main) for thread in made.threads] == [
        (51, 4, True),
        (52, None, True),
        (53, None, True),
        (54, None, False),
    ]
    [finding] = made.findings
    assert finding.evidence.startswith("process 53: ")
    lead = build_document(made).lead
    assert list_figures(lead[1]) == ["50", "4", "2"]
    assert len(lead) == 3
    assert len(build_document(msgspec.structs.replace(made, process=changed(spawner, spawned=False))).lead) == 2


def test_a_program_that_imports_is_said_to() -> None:
    text = f"thread ({PID}): MainThread;<module> (/home/me/a.py:2);<module> (/opt/site-packages/torch/__init__.py:9) 40"
    imports = read_collapsed(text, pid=PID, hz=20.0, seconds=2.0, directory="/home/me")
    assert build_document(analyze_process(facts(), imports)).headline.endswith("importing")


def test_it_is_drawn_again_from_its_folder(tmp_path: Path) -> None:
    made = build_document(analysis())
    write_document(made, tmp_path)
    again = load_document(tmp_path)
    assert (again.kind, again.headline, list(again.raw)) == ("process", made.headline, list(made.raw))
