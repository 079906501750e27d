import re
from dataclasses import replace

from perfkit_reports.document.blocks import Block, Findings, Section, Text
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import markdown
from tests.fixtures import sample_document
from tests.fixtures.sample_document import Kernel, bars, sample, table


def of(*blocks: Block) -> str:
    return markdown.render(replace(sample(), sections=(Section("s", "S", blocks),)))


def test_every_block_is_said_under_headings_that_skip_no_level() -> None:
    text = markdown.render(sample())

    assert re.findall(r"^#+ .*$", text, re.MULTILINE) == [
        "# sample: perfkit report",
        "## Caveats",
        "## Findings",
        "## Where the time went",
        "### Told",
        "### Machine",
        "### Where the time went",
        "### Kernels",
        "### Kernels",
        "### More of it",
        "### Both",
        "#### Where the time went",
    ]
    for part in (
        "**fail: Step 10 ms on an H100**\n\nIt is slow.",
        "- Step time: 10 ms (of 3 steps)\n- MFU: not known: no peak",
        "- **Gain: Fuse the copies**. Trace: rank 0. Up to 12.0 ms a step. They take 12 ms. "
        "The others stay as they are. **Fix:** Call copy\\_ once.",
        "| rank 0 | 75.0 % | at least 25.0 % |",
        "- Driver: not known: not recorded",
        "> **Out of memory**\n>\n> It ran out of memory.",
        "Two dots, in words.",
        "In the fold.",
        "The report also has: b.",
    ):
        assert part in text, part


def test_details_are_left_out() -> None:
    text = markdown.render(sample())

    assert "Letters" not in text
    assert "line 1" not in text


def test_no_text_forms_markup() -> None:
    text = markdown.render(sample())

    assert "<script" not in text
    assert r"&lt;script&gt;alert('x')&lt;/script&gt; &amp; \[a\](b) \`c\` \| \*d\*" in text


def test_code_is_fenced_and_folded() -> None:
    code = Text(id="c", style="code", title="Traceback", lines=("raise ``` Error",))

    assert "<details><summary>Traceback</summary>\n\n````\nraise ``` Error\n````\n\n</details>" in of(code)


def test_a_ranked_table_is_cut_and_says_so() -> None:
    text = of(table(limit=40, rows=[Kernel(f"k{place}", 0.001) for place in range(33)]))

    assert "| k14 |" in text
    assert "| k15 |" not in text
    assert "18 more kernels, all in tables/kernels.parquet" in text


def test_reasons_are_footnotes() -> None:
    text = of(table())

    assert "| copy | n/a (1) | – |" in text
    assert text.endswith("1. n/a: it was not timed\n")


def test_rows_that_others_are_compared_with_are_bold_and_what_a_row_unfolds_to_stands_below() -> None:
    text = of(table(emphasis=lambda row: row.note == "fast", details=lambda row: [Text(id="why", lines=(row.note,))]))

    assert "| **gemm&lt;float&gt;** | 2 ms | fast |" in text
    assert "**gemm&lt;float&gt;**\n\nfast" in text


def test_many_bars_are_cut() -> None:
    one = bars()
    text = of(replace(one, bars=tuple(replace(one.bars[0], name=f"rank {place}") for place in range(200))))

    assert "| rank 14 |" in text
    assert "185 more, all in tables/time.parquet" in text


def test_a_section_without_anything_to_show_has_no_heading() -> None:
    hidden = Text(id="d", lines=("A detail.",), weight=Weight.DETAIL)

    assert "## S" not in of(hidden)
    assert "Nothing stands out." in of(Findings(id="findings", items=()))


def test_what_a_chart_says_in_words_is_said_whatever_its_weight() -> None:
    assert "Two dots, in words." in of(replace(sample_document.chart(), weight=Weight.BRIEF))
