import re

from perfkit_reports.document.blocks import Section
from perfkit_reports.document.document import Document
from perfkit_reports.render import markdown
from tests.fixtures import sample_formats as sample


def _of(*blocks: object) -> str:
    return markdown.render(
        Document(kind="a", title="a", headline="b", perfkit="", created_at="", sections=(Section("s", "S", blocks),))
    )


def test_every_block_is_said_once() -> None:
    text = markdown.render(sample.document())

    assert re.findall(r"^#+ .*$", text, re.M)[1:] == [
        "## Kernels",
        "## Caveats",
        "## Time",
        "### Where the time goes",
        "## More",
        "### Machine",
        "### Notes",
        "### Group",
        "#### Inside",
        "### Folded",
    ]
    assert "**fail: A step takes 8 ms.**\n\nIt is bound by memory." in text
    assert "- Step: 8 ms (mean of 5)\n- MFU: n/a: no peak is known" in text
    (gain,) = (line for line in text.splitlines() if line.startswith("- **Gain: Gain 0**"))
    for part in ("(`fusion.elementwise`)", "Trace: amp.", "1.00 ms", "Seen.", "**Fix:** Fuse it."):
        assert part in gain
    assert "| **short** | 8 ms (mean) | 7 |" in text
    assert "| step | 75.0 % | at least 25.0 % |" in text
    assert "- Driver: n/a: no driver" in text
    assert "> **Out of memory**\n>\n> It asked for 4 GiB." in text
    assert "<details><summary>Traceback</summary>\n\n````\nraise ``` Error\n````\n\n</details>" in text
    assert "One byte at the peak." in text
    assert "First of two.\n\nAlso in the report: ops." in text


def test_details_and_columns_of_them_are_left_out() -> None:
    text = markdown.render(sample.document())

    assert "A detail." not in text
    assert "## Hidden" not in text
    assert "Registers" not in text
    assert "Empty" not in text


def test_no_text_forms_markup() -> None:
    text = markdown.render(sample.document())

    assert "<script" not in text
    assert "<b>" not in text
    assert r"\[bold\]a\|b&lt;/b&gt;" in text


def test_a_ranked_table_is_cut_and_says_so() -> None:
    text = _of(sample.kernels())

    assert "kernel\\_11" in text
    assert "kernel\\_12" not in text
    assert re.search(r"\b18 .*tables/kernels\.parquet", text)


def test_reasons_are_footnotes() -> None:
    text = _of(sample.kernels())

    assert "| unmeasured | n/a (1) | 7 |" in text
    assert text.endswith("1. n/a: nobody measured it\n")


def test_what_a_row_unfolds_to_stands_below_the_table() -> None:
    assert "**short**\n\nIt waits." in _of(sample.kernels(sample.ROWS[:1]))


def test_without_findings_it_says_so() -> None:
    from perfkit_reports.document.blocks import Findings

    assert "Nothing stands out." in _of(Findings(id="findings", items=()))
