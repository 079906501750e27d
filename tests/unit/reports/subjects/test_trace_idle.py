"""What a report says of idle time: shares of its causes, and rows by where the host was."""

from perfkit.analysis.model.idle import BETWEEN, ELSEWHERE, LATE
from perfkit_reports.document.blocks import Bars, Section, Table, walk_blocks
from perfkit_reports.subjects.trace import build_document
from perfkit_reports.subjects.trace.idle import build_idle_section
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import gap

PREPROCESS = "data.py(31): preprocess"
GAPS = (
    gap(
        0.2,
        cause=ELSEWHERE,
        user_frame=PREPROCESS,
        frame=PREPROCESS,
        builtin="sum",
        range="prep",
    ),
    gap(0.1, cause=LATE, module="Model_0/Layer_3", op="aten::mm", next_op="aten::mm"),
    gap(0.06, cause=LATE, is_named=False),
    gap(0.04, cause=BETWEEN),
)


def _section() -> Section:
    section = build_idle_section(sample.alone(gaps=GAPS, step_s=1.0))
    assert section is not None
    return section


def test_causes_are_shares_of_the_idle_time() -> None:
    blocks = list(walk_blocks(_section().blocks))
    (bars,) = [block for block in blocks if isinstance(block, Bars)]
    (bar,) = bars.bars
    assert list_figures(bar.name) == ["400 ms", "40.0 %"]
    assert {share.category: round(share.share, 3) for share in bar.shares} == {ELSEWHERE: 0.5, LATE: 0.4, BETWEEN: 0.1}


def test_a_row_tells_where_the_host_was() -> None:
    (found,) = [block for block in walk_blocks(_section().blocks) if isinstance(block, Table)]
    shown = [[column.cell(row).text for column in found.columns[:4]] for row in found.rows]
    assert shown == [
        [ELSEWHERE, "sum in preprocess (data.py:31)", "prep", "–"],
        [LATE, "aten::mm", "Model_0/Layer_3", "aten::mm"],
        [LATE, "(shorter gaps combined)", "–", "–"],
        [BETWEEN, "–", "–", "–"],
    ]
    assert found.data == "gaps"


def test_only_what_is_shown_is_explained() -> None:
    told = " ".join(_section().intro)
    assert all(f"“{cause}”" in told for cause in (ELSEWHERE, LATE, BETWEEN))
    assert "not recorded" not in told


def test_without_idle_time_there_is_no_section() -> None:
    assert "idle" not in [section.id for section in build_document(sample.alone(gaps=())).sections]
