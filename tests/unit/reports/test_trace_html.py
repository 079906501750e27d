import msgspec
import pytest

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports import trace_html
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(trace_html.render(sample.realistic()))


def test_every_analysis_makes_a_page_that_loads_nothing_and_is_not_broken_out_of(traces: TraceAnalysis) -> None:
    text = trace_html.render(traces)
    assert len(text.encode()) < 7_000_000
    made = Page(text)
    assert made.loaded() == []
    assert made.intruders() == []
    ids = {attributes["id"] for tag, attributes in made.tags if tag == "section"}
    links = {(attributes.get("href") or "")[1:] for tag, attributes in made.tags if tag == "a"}
    assert ids <= links | {"summary"}
    assert {link for link in links if not link.startswith("note-")} <= ids | {"main"}


def test_hostile_text_is_there_as_text() -> None:
    assert HOSTILE in Page(trace_html.render(sample.hostile())).text


def test_the_page_tells_the_story(page: Page) -> None:
    for part in (
        "Step\u00a034.9 ms on NVIDIA H100".replace("\u00a0", " "),
        "Attention is not fused",
        "Rank 1 holds the others up",
        "41.2 ms became 34.9 ms, -6.28 ms a step",
        "120 of 330 kernels a step take less than",
        "a custom op without a formula",
        "Above a roof: 1 with a wrong cost",
        "NVIDIA H100 datasheet, SXM5, dense",
        "3 events with a negative duration were taken as 0 ns long",
        "17 %",
    ):
        assert part in page.text.replace("\u00a0", " "), part


def test_long_kernel_names_are_short_with_the_whole_on_hover(page: Page) -> None:
    titles = [attributes.get("title") for tag, attributes in page.tags if tag == "code"]
    assert sample.GELU in titles
    assert sample.GELU not in page.text
    assert "GeluCUDAKernelImpl" in page.text


def test_what_is_missing_is_left_out_or_explained() -> None:
    alone = Page(trace_html.render(sample.alone())).text
    assert "Who is waited for" not in alone
    assert "What changed" not in alone
    for analysis, part in (
        (sample.without_shapes(), "record_shapes=True"),
        (sample.unknown_device(), "Name the device with --device"),
        (sample.cpu_only(), "On a CPU nothing is launched"),
        (sample.nothing(), "holds no kernels and no ops"),
    ):
        assert part in Page(trace_html.render(analysis)).text


def test_unknown_figures_are_na_with_a_footnote(page: Page) -> None:
    assert "n/a: its size was not recorded" in page.text
    assert "n/a: its size or its time is not known" in page.text


def test_long_tables_are_cut_and_say_where_the_rest_is() -> None:
    rows = sample.trace("rank 0", 0).kernels * 50
    text = Page(trace_html.render(sample.alone(kernels=rows))).text
    assert "80 of 500 kernels shown; all are in tables/kernels.parquet." in text
    assert "80 of 500 kernels" not in Page(trace_html.render(sample.alone())).text


def test_sixty_four_ranks_stay_small() -> None:
    made = Page(trace_html.render(sample.many_ranks()))
    assert "Tables of 4 of 64 traces; all are in tables/." in made.text
    assert "40 of 64 ranks shown; all are in tables/ranks.parquet." in made.text


def test_columns_without_content_are_left_out() -> None:
    kernels = tuple(msgspec.structs.replace(row, module="") for row in sample.trace("rank 0", 0).kernels)
    text = trace_html.render(sample.alone(kernels=kernels, ops=(), modules=(), phases=()))
    heads = text.split('class="win-panel few"')[1].split("</thead>")[0]
    assert ">Module<" not in heads
    assert ">Op<" in heads


def test_without_ceilings_nothing_is_said_to_be_won() -> None:
    text = Page(trace_html.render(sample.unknown_device())).text
    assert "reaching the roofs" not in text
    assert "How fast the work runs, without roofs to hold it against" in text


def test_names_and_shapes_of_any_length_do_not_fill_the_page() -> None:
    long = tuple(
        msgspec.structs.replace(row, name=row.name * 50, shapes="[4096, 4096] " * 9999)
        for row in sample.trace("rank 0", 0).kernels * 50
    )
    ranks = tuple(msgspec.structs.replace(trace, kernels=long, ops=long) for trace in sample.many_ranks(4).traces)
    assert len(trace_html.render(msgspec.structs.replace(sample.many_ranks(4), traces=ranks)).encode()) < 7_000_000
