import json
import re

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit_reports import html
from perfkit_reports.page import embed
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE, TRACEBACK


@pytest.fixture(scope="session")
def page(realistic: Analysis) -> Page:
    return Page(html.render(realistic))


@pytest.fixture(scope="session")
def hostile_page(every_status: Analysis) -> Page:
    return Page(html.render(every_status))


def test_the_whole_analysis_is_inside_and_comes_back(hostile_page: Page, every_status: Analysis) -> None:
    assert msgspec.json.decode(hostile_page.scripts["report-data"], type=Analysis) == every_status


def test_nothing_is_loaded_from_elsewhere(page: Page) -> None:
    assert page.loaded() == []


def test_hostile_text_forms_no_tag_and_no_attribute(hostile_page: Page) -> None:
    assert hostile_page.intruders() == []
    assert HOSTILE in hostile_page.text  # as text it is all there
    assert "<b>division</b> by zero & more" in hostile_page.text


def test_embedded_json_cannot_end_its_script(every_status: Analysis) -> None:
    text = embed(json.dumps({"a": "</script><!--\u2028 &"}))
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!--\u2028 &"}


def test_every_variant_has_a_row_and_those_that_failed_their_reason_and_traceback(
    hostile_page: Page, every_status: Analysis
) -> None:
    for variant in every_status.variants:
        assert variant.name in [attributes.get("data-value") for tag, attributes in hostile_page.tags if tag == "th"]
        if variant.reason:
            assert " ".join(variant.reason.split()) in hostile_page.text
    assert " ".join(TRACEBACK.split()) in hostile_page.text


def test_summary_shows_the_figures_with_intervals_and_the_balance_line(page: Page) -> None:
    for part in (
        "1.62×",
        "1.59–1.65×",
        "▲ faster",
        "-26.0 %",
        "within tolerance",
        "break",
        "412 MiB at the peak in backward = activation 318 MiB + optimizer state 42.0 MiB + parameter 21.0 MiB"
        " + gradient 21.0 MiB + temporary 9.00 MiB + input 1.00 MiB",
        "peak 412 MiB + interpreter and libraries 402 MiB - allocated and never touched 12.0 MiB = 802 MiB",
    ):
        assert part in page.text


def test_unknown_figures_are_na_with_a_footnote_never_zero(realistic: Analysis) -> None:
    from perfkit.record import Unknown

    unknown = Unknown(reason="the device is not in the catalogue")
    first = msgspec.structs.replace(realistic.variants[0], mfu=unknown, hfu=unknown)
    text = Page(html.render(msgspec.structs.replace(realistic, variants=(first, *realistic.variants[1:])))).text
    assert text.count("n/a: the device is not in the catalogue") == 1


def test_energy_has_a_column_only_where_one_is_known(page: Page, realistic: Analysis) -> None:
    from tests.fixtures.sample_analysis import known

    assert "Energy a step Loss" not in page.text
    first = msgspec.structs.replace(realistic.variants[0], energy_per_step=known(12.0, "J"))
    powered = Page(html.render(msgspec.structs.replace(realistic, variants=(first, *realistic.variants[1:]))))
    assert "Energy a step Loss" in powered.text
    assert "12.0 J" in powered.text


def test_a_page_without_any_measurement_still_explains_itself(nothing_measured: Analysis) -> None:
    text = Page(html.render(nothing_measured)).text
    for part in ("No variant could be measured.", "ValueError: no data", "No variant was traced.", "perfkit calibrate"):
        assert part in text


def test_a_report_of_eight_variants_is_under_8_mb(realistic: Analysis) -> None:
    assert len(html.render(realistic).encode()) < 8_000_000


def test_columns_of_operations_that_say_nothing_are_left_out(realistic: Analysis) -> None:
    def heading(analysis: Analysis) -> str:
        text = Page(html.render(analysis)).text
        start = text.index("Op Time Share")
        return text[start : text.index("aten::mm", start)]

    assert "Module" in heading(realistic)
    variants = []
    for variant in realistic.variants:
        bare = tuple(msgspec.structs.replace(row, module="") for row in variant.ops)
        trace = variant.trace and msgspec.structs.replace(variant.trace, ops=bare)
        variants.append(msgspec.structs.replace(variant, trace=trace))
    assert "Module" not in heading(msgspec.structs.replace(realistic, variants=tuple(variants)))


def test_many_findings_are_folded_after_the_first_eight(realistic: Analysis) -> None:
    def section(count: int) -> str:
        page = html.render(msgspec.structs.replace(realistic, findings=realistic.findings[:1] * count))
        return page.split('id="findings"')[1].split("</section>")[0]

    assert "<summary>3 more</summary>" in section(11)
    assert "<summary>" not in section(8)
