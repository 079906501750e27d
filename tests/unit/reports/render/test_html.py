"""A document as a page: what each kind of block becomes. Wordings that belong to pages alone are pinned here."""

import itertools
import json
import re
from dataclasses import replace
from math import inf

import pytest

from perfkit_reports.document.blocks import Table, Text, Tile
from perfkit_reports.document.cells import Cell, Mark, make_unknown_cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.fixes import Fix, Fixes
from perfkit_reports.document.tables import Column
from perfkit_reports.render import html
from perfkit_reports.render.html import SCRIPTS
from perfkit_reports.render.page import read_script, read_template
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_formats import HOSTILE, document, findings


@pytest.fixture(scope="module")
def text() -> str:
    return html.render(document())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def attributes(page: Page, name: str) -> list[str]:
    return [value for _, given in page.tags if (value := given.get(name)) is not None]


def test_the_page_opens_without_a_network_and_forms_no_markup_from_text(page: Page) -> None:
    assert page.loaded() == []
    assert page.intruders() == []
    assert HOSTILE in page.text


def test_the_summary_tells_the_verdict_the_figures_and_the_caveats(page: Page) -> None:
    for words in (
        "A step takes 8 ms.",
        "fail",
        "It is bound by memory.",
        "no peak is known",
        "Caveats Two ranks are missing.",
    ):
        assert words in page.text


def test_notes_verdicts_and_findings_carry_their_ids(page: Page) -> None:
    assert attributes(page, "data-note") == ["ranks.missing"]
    assert attributes(page, "data-id") == ["fail"]
    assert page.text.count("fusion.elementwise") == 5


def test_every_block_of_the_document_is_there(page: Page) -> None:
    told = {*attributes(page, "data-block"), *attributes(page, "data-figure")}
    assert told >= {"findings", "kernels", "why", "time-split", "peak", "machine", "callout", "list", "code", "alarm"}
    assert told >= {
        "group",
        "in-group",
        "fold",
        "in-fold",
        "choice",
        "first",
        "second",
        "detail",
        "kernels-a",
        "kernels-b",
    }


def test_no_level_of_headings_is_skipped(text: str) -> None:
    levels = [int(level) for level in re.findall(r"<h(\d)", text)]
    assert levels[0] == 1
    assert max(levels) == 4
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_ids_are_unique_and_every_reference_leads_to_one(page: Page) -> None:
    ids = attributes(page, "id")
    assert len(ids) == len(set(ids))
    local = [value[1:] for value in attributes(page, "href") if value.startswith("#")]
    assert {*local, *attributes(page, "aria-controls")} <= set(ids)
    assert set(attributes(page, "data-csv")) <= set(attributes(page, "data-block"))


def test_figures_that_get_a_toolbar_are_named_groups_and_no_images(page: Page) -> None:
    charts = [attributes for _, attributes in page.tags if attributes.get("class", "").split()[:1] == ["chart"]]
    assert charts
    assert {chart["role"] for chart in charts} == {"group"}
    assert all(chart["aria-label"] for chart in charts)


def test_a_table_says_what_it_leaves_out_and_why_a_figure_is_not_known(page: Page) -> None:
    assert "20 of 33 kernels shown; all are in tables/kernels.parquet." in page.text
    assert "n/a: nobody measured it" in page.text
    assert page.text.count("n/a: nobody measured it") == 1  # a footnote for all of them


def test_findings_name_whom_they_are_about_only_where_there_are_several(page: Page) -> None:
    assert "amp up to 1.00 ms" in page.text
    assert "The others stay" in page.text
    assert "Fix Fuse it." in page.text
    alone = replace(findings(), owner="", items=findings().items * 2)
    other = Page(html.render(replace(document(), summary=(alone,)))).text
    assert "amp up to" not in other
    assert "Gain up to 1.00 ms" in other
    assert "4 more" in other


def test_a_link_leads_to_each_finding_by_its_id(page: Page) -> None:
    articles = [
        given["id"] for name, given in page.tags if name == "article" and "finding" in (given.get("class") or "")
    ]
    assert articles == [anchor for anchor, _ in findings().anchored]
    assert articles[:3] == [
        "finding-fusion-elementwise",
        "finding-fusion-elementwise-2",
        "finding-fusion-elementwise-3",
    ]
    assert articles[-1] == "finding-limit-lost_kernels"


def test_figures_and_the_saved_analysis_lie_in_the_page_as_json(page: Page) -> None:
    assert set(json.loads(page.unfold("figures"))) == {"peak"}
    assert json.loads(page.unfold("saved")) == {"a": "</script>"}
    assert "Save JSON" in page.text
    assert "Save JSON" not in Page(html.render(replace(document(), saves=""))).text


@pytest.mark.parametrize("name", ["report.js", "drawer.js", *SCRIPTS])
def test_no_text_of_a_script_runs_over_lines_so_that_its_indentation_can_go(name: str) -> None:
    assert all(line.count("`") % 2 == 0 for line in read_template(name).splitlines())
    assert not any(line.startswith((" ", "//")) for line in read_script(name).splitlines())


def test_details_are_folded(text: str) -> None:
    assert re.search(r'<details class="fold"><summary>Output</summary>\s*<pre', text)
    assert re.search(r'<details class="fold" data-block="fold"><summary>Folded</summary>', text)


def test_a_document_may_hold_nothing_but_its_headline() -> None:
    bare = Document(kind="trace", title="t", headline="Nothing.", perfkit="1", created_at="now", sections=())
    assert "Nothing." in Page(html.render(bare)).text
    said = Text(id="none", lines=("No figure.",), style="empty")
    assert "No figure." in Page(html.render(replace(bare, summary=(said,)))).text


def drawn(mark: Mark) -> str:
    columns = [Column[Mark]("Change", lambda each: Cell("+1 %", mark=each))]
    table = Table(id="changes", title="Changes", columns=columns, rows=[mark])
    found = re.search(r"<svg class=\"forest.*?</svg>", html.render(replace(document(), summary=(table,))), re.DOTALL)
    assert found
    return found[0]


def test_no_change_lies_on_its_line_and_what_is_allowed_on_another() -> None:
    assert 'class="limit" x1="40"' in drawn(Mark(0.0))
    assert "translate(0.0 0)" in drawn(Mark(0.0))
    between = drawn(Mark(0.5, low=0.0, high=1.0))
    assert 'class="interval" x1="0.0" x2="40.0"' in between
    assert "translate(20.0 0)" in between


@pytest.mark.parametrize(("at", "arrow"), [(100.0, "L4 0"), (inf, "L4 0"), (-100.0, "L-4 0"), (-inf, "L-4 0")])
def test_a_change_outside_of_the_drawing_is_an_arrow_at_its_edge(at: float, arrow: str) -> None:
    assert arrow in drawn(Mark(at))
    assert f"translate({109 if at > 0 else -53} 0)" in drawn(Mark(at))
    assert arrow not in drawn(Mark(1.0))


def test_the_first_screen_has_badges_bars_and_fixes_that_lead_to_findings(page: Page) -> None:
    fix = Fix("fuse ops", Cell("2 ms", value=0.002), "torch.compile", "simulated", anchor="finding-a")
    unknown = Fix("record again", make_unknown_cell("no gain"), "", "unknown")
    first = Fixes(id="fixes", items=(fix, unknown), caption="all: 3 ms")
    shown = html.render(replace(document(), first=(first,), badges=(Tile("Coverage", Cell("0.91")),)))
    assert shown.index("0.91") < shown.index("<h1") < shown.index('data-block="fixes"') < shown.index('class="cards"')
    assert '<a href="#finding-a">fuse ops</a>' in shown
    assert shown.count('<span class="na">unknown</span>') == 1
