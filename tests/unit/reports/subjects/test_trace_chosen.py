"""What the drawer of a page tells: of every row and dot, with the sums over one name, and each text once."""

from msgspec.structs import replace

from perfkit.analysis.model.step import FlameGraph
from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.document.blocks import Chart, Table
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.render.html import build_selection_sheet
from perfkit_reports.selection import make_name_key, make_product_key, make_row_key
from perfkit_reports.subjects.trace import build_document
from perfkit_reports.subjects.trace.selected_items import list_selected_items
from tests.fixtures import rank_traces
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.document_blocks import blocks


def told(trace: RankTrace, limit: int = 80) -> dict[tuple[str, str], SelectedItem]:
    return {(one.key, one.part): one for one in list_selected_items([trace], limit, ())}


def facts(one: SelectedItem) -> dict[str, str]:
    return {title: cell.text for title, cell in one.facts}


def test_every_row_and_every_dot_of_a_report_is_told_of() -> None:
    made = build_document(sample.realistic())
    known = {f"{one.key};{one.part}" for one in made.chosen()}
    for block in blocks(made).values():
        if isinstance(block, Table) and block.key is not None:
            assert {block.key(row) for row in block.rows[: block.limit]} <= known, block.id
        if isinstance(block, Chart):
            selectable = [dots for dots in block.figure["data"] if "meta" in dots]  # others name what a click picks
            assert {key for dots in selectable for key in dots.get("customdata", ())} <= known, block.id


def test_an_op_that_only_a_finding_names_is_told_of() -> None:
    trace = sample.trace("rank 0", 0)
    last = min(trace.ops, key=lambda row: row.seconds)
    about = replace(sample.realistic().findings[0], ops=(last.name,))
    assert make_name_key(last) in {one.key for one in list_selected_items([replace(trace, kernels=())], 1, [about])}


def test_the_time_at_best_comes_with_its_formula() -> None:
    trace = sample.trace("rank 0", 0)
    details = [
        cell.detail
        for one in list_selected_items([trace], 80, ())
        for title, cell in one.facts
        if title == "Roofline time"
    ]
    assert any("TFLOP / " in detail and " GB/s = " in detail for detail in details)


def test_rows_of_one_name_are_added_up() -> None:
    trace = sample.trace("rank 0", 0)
    row = trace.kernels[0]
    twice = replace(trace, kernels=(row, replace(row, phase="elsewhere", seconds=3 * row.seconds)))
    whole = facts(told(twice, limit=1)[make_name_key(row), ""])
    assert whole["Rows"] == "2"
    assert whole["Time"] == "24.8 ms"
    assert (make_name_key(row), "") not in told(replace(trace, kernels=(row,)))


def test_the_lines_that_launched_it_are_told_with_the_stack_of_the_first() -> None:
    outer, inner = "/home/me/train.py(10): main", "/lib/site-packages/nets/model.py(5): forward"
    stack = FlameGraph(
        grouping="stack",
        names=(outer, inner, "aten::_softmax"),
        kinds=("frame", "op"),
        parent=(-1, 0, 0, 1),
        name=(0, 1, 2, 2),
        kind=(0, 0, 1, 1),
        values={"time": (0.007, 0.004, 0.003, 0.004)},
        min_share=0.001,
    )
    told_of = told(replace(sample.trace("rank 0", 0), flames=(stack,)))
    (cell,) = {dict(one.facts)["Launched from"] for one in told_of.values() if one.key == "op:aten::_softmax"}
    assert cell.text == "forward (model.py:5) 4.00 ms; main (train.py:10) 3.00 ms"
    assert cell.detail == "main (train.py:10) > forward (model.py:5)"


def test_a_mangled_name_is_told_in_full_and_as_it_was_recorded() -> None:
    trace = sample.trace("rank 0", 0)
    mangled = replace(trace.kernels[0], name="_ZN2at6native4fillEv")
    one = next(
        one
        for one in list_selected_items([replace(trace, kernels=(mangled,))], 80, ())
        if one.kind == "kernel" and one.part
    )
    assert (one.name, one.recorded) == ("at::native::fill", "_ZN2at6native4fillEv")


def test_on_a_page_a_text_stands_once() -> None:
    sheet = build_selection_sheet(build_document(sample.realistic()).chosen())
    assert len(set(sheet["texts"])) == len(sheet["texts"])
    item = sheet["items"]["op:aten::_softmax"]
    assert sheet["texts"][item["name"]] == "aten::_softmax"
    titles = [sheet["texts"][place] for place in sheet["kinds"]["op"]]
    assert titles[:2] == ["Time", "Share"]
    assert {len(cells) for _, _, cells, _ in item["rows"]} == {len(titles)}
    assert {sheet["texts"][owner] for _, owner, _, _ in item["rows"]} == {"rank 0", "rank 1", "main rank 0"}


def test_a_product_is_chosen_with_the_row_of_its_kernel() -> None:
    product = rank_traces.gemm(0.01, name="aten::mm", kernel="gemm_kernel", phase="forward", shapes="bf16[8,8]")
    kernel = rank_traces.row("gemm_kernel", 0.01, kind="kernel", op="aten::mm", phase="forward", shapes="bf16[8,8]")
    assert make_product_key(product) == make_row_key(kernel)
    assert make_product_key(replace(product, kernel="")) == "op:aten::mm"
