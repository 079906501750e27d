"""The section of sampled Python stacks."""

from perfkit.analysis.model.stacks import HotLine, LoopStacks, ThreadStacks
from perfkit_reports.document.blocks import Facts, Table, Text, walk_blocks
from perfkit_reports.subjects.loop.stacks import build_sections
from tests.fixtures import sample_loops
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import changed

COLLATE = HotLine(
    function="collate",
    place="train.py:88",
    share=0.41,
    self_share=0.4,
    total_share=0.5,
    lock_share=1.0,
    library_function="",
)
STACKS = ThreadStacks(
    processes=1,
    samples=20,
    idle_samples=0,
    seconds=0.2,
    hz=100.0,
    lock_share=0.7,
    perfkit_share=0.02,
    unnamed_share=0.0,
    phases={"": 0.2, "forward": 0.8},
    lines=(COLLATE,),
    libraries=(),
    python_lines=(),
    data_lines=(),
)


def test_nothing_is_said_where_nothing_was_sampled() -> None:
    assert list(build_sections(sample_loops.alone())) == []


def test_hot_lines_and_what_is_known_of_the_samples() -> None:
    analysis = sample_loops.alone()
    first = analysis.variants[0]
    workers = changed(STACKS, processes=2, samples=60, idle_samples=20)
    loop = changed(
        first.loop,
        stacks=LoopStacks(loop=STACKS, workers=workers, sampling_cost=0.042, failed_share=0.01, other_steps_share=0.3),
    )
    [made] = build_sections(changed(analysis, variants=(changed(first, loop=loop),)))
    blocks = list(walk_blocks(made.blocks))
    own, theirs = (block for block in blocks if isinstance(block, Facts))
    assert own.title == "Loop"
    assert list_figures(theirs.title) == ["2"]
    told = {name: cell.text for name, cell in own.items}
    assert told == {
        "Samples": "20, 100 per second",
        "GIL held": "70 %",
        "Phases": "forward 80 %, between phases 20 %",
        "In perfkit's hooks": "2.0 %",
        "In atypical steps": "30 %",
        "Sampling cost": "4.2 % of a core",
        "Failed samples": "1.0 %",
    }
    assert dict(theirs.items)["Waiting for requests"].text == "25 %"
    table = next(block for block in blocks if isinstance(block, Table))
    assert [column.cell(COLLATE).text for column in table.columns][:3] == ["collate", "train.py:88", "41.0 %"]
    assert [block.id for block in blocks if block.id.endswith("few")] == ["stacks-0-loop-few"]


def test_why_nothing_was_sampled_is_said() -> None:
    analysis = sample_loops.alone()
    first = analysis.variants[0]
    loop = changed(first.loop, stacks=LoopStacks(reason="needs the package py-spy: pip install py-spy"))
    [made] = build_sections(changed(analysis, variants=(changed(first, loop=loop),)))
    told = [block.lines for block in walk_blocks(made.blocks) if isinstance(block, Text)]
    [(reason,)] = told
    assert reason.endswith("install py-spy")
