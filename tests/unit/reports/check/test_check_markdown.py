import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perfkit.check.result import Check
from perfkit_reports.check import markdown
from perfkit_reports.check.markdown_text import SENTENCE, escaped, link
from perfkit_reports.plain import one_line
from tests.fixtures import sample_checks
from tests.fixtures.parsed_page import Page

_TAGS = {
    *("h2", "p", "ul", "li", "strong", "table", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "pre", "code", "span"),
}
# What markup is made of, among any other characters.
TEXT = st.text(st.sampled_from("\\`*_[]()<>|~#&;:/@$!-+=.\n\r\x00\x1b\ud800w1 ") | st.characters(), max_size=80)


def rendered(text: str) -> Page:
    """As a host shows it: CommonMark with tables, strikethrough and HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return Page(parser.render(text))


def rows(text: str) -> list[list[str]]:
    """The cells of the first table, split where a bar is not escaped."""
    lines = next(block for block in text.split("\n\n") if block.startswith("| Variant")).splitlines()
    return [[cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")] for line in lines]


def test_the_heading_is_the_verdict(every_verdict: Check) -> None:
    text = markdown.render(every_verdict)
    assert text.startswith(f"{markdown.MARK}\n\n## ✗ fail: 4 of 19 gated quantities got worse")
    assert markdown.render(sample_checks.passing()).splitlines()[2] == (
        "## ✓ pass: 5 gated quantities: nothing got worse by more than its threshold"
    )


def test_the_table_has_what_did_not_pass_the_worst_first(every_verdict: Check) -> None:
    table = rows(markdown.render(every_verdict))
    assert table[0] == ["Variant", "Quantity", "Before", "After", "Change", "Threshold", "Verdict"]
    verdicts = [row[-1] for row in table[2:]]
    assert verdicts == ["✗ fail"] * 4 + ["? inconclusive"] * 2 + ["▲ improved"] * 3
    assert table[2] == ["gpt amp+compile", "peak allocated", "312 MiB", "330 MiB", "+5.8 % (exactly)", "0.5%", "✗ fail"]


def test_all_quantities_are_in_a_fold_after_it(every_verdict: Check) -> None:
    text = markdown.render(every_verdict)
    fold = text[text.index("<summary>All 22 quantities</summary>") :]
    assert fold.count("\n| gpt ") + fold.count("\n| mlp ") == 22
    assert text.count("<details>") == text.count("</details>") == 4


def test_what_changed_is_in_folds_without_what_is_noise(every_verdict: Check) -> None:
    text = markdown.render(every_verdict)
    assert "| gpt amp+compile | aten::\\_softmax | slower | +910 us | 310 us | 1.22 ms | 6 | blocks.\\*.attn |" in text
    assert "aten::mm" not in text
    assert "| gpt amp+compile | activation | +18.0 MiB | 241 MiB | 259 MiB |" in text
    assert "| gpt amp+compile | aten::\\_softmax | blocks.\\*.attn | activation | +18.0 MiB | 18.0 MiB |" in text
    assert "parameter" not in text


def test_a_pass_is_short() -> None:
    text = markdown.render(sample_checks.passing())
    assert "| gpt baseline |" not in text[: text.index("<details>")]


def test_suspects_reasons_and_how_to_reproduce_are_told(every_verdict: Check) -> None:
    page = rendered(markdown.render(every_verdict, report="https://ci.example/7/report.html"))
    assert "→ gpt amp+compile, suspect: aten::_softmax in blocks.*.attn (forward)" in "".join(page.words)
    assert "To decide: about 107 more pairs" in page.text
    assert "To reproduce, at 9c1e77a: perfkit check --against-ref origin/main" in page.text
    assert page.loaded() == [("a", "https://ci.example/7/report.html")]


def test_a_report_that_is_a_file_is_named_and_not_linked(every_verdict: Check) -> None:
    text = markdown.render(every_verdict, report="report.html")
    assert "Report: report.html" in text
    assert rendered(text).loaded() == []


def test_no_text_of_a_check_forms_markup(check: Check) -> None:
    page = rendered(markdown.render(check, limit=markdown.SUMMARY_BYTES))
    assert {tag for tag, _ in page.tags} <= _TAGS
    assert all(not attributes for _, attributes in page.tags)


@pytest.mark.parametrize("limit", [6_000, markdown.COMMENT_BYTES, markdown.SUMMARY_BYTES])
def test_it_stays_within_the_limit(check: Check, limit: int) -> None:
    assert len(markdown.render(check, limit=limit).encode()) <= limit


def test_what_is_left_out_is_counted_and_folds_are_closed() -> None:
    check = sample_checks.many(400)
    text = markdown.render(check)
    assert len(text.encode()) <= markdown.COMMENT_BYTES
    assert text.count("<details>") == text.count("</details>")
    told = re.search(r"Left out, .*: ([\d,]+) of ([\d,]+) quantities that did not simply pass", text)
    assert told is not None
    left_out, total = (int(number.replace(",", "")) for number in told.groups())
    assert len(rows(text)) - 2 == total - left_out
    assert "Left out" not in markdown.render(sample_checks.every_verdict())
    assert "To reproduce" in text


def test_longer_texts_than_any_one_needs_leave_room_for_the_rest(every_verdict: Check) -> None:
    long = "$|<" * 50_000
    side = msgspec.structs.replace(every_verdict.before, label=long, revision=long)
    variant = msgspec.structs.replace(every_verdict.variants[0], variant=long)
    check = msgspec.structs.replace(
        every_verdict, command=long, before=side, after=side, notes=(long,), variants=(variant,)
    )
    text = markdown.render(check)
    assert len(text.encode()) <= markdown.COMMENT_BYTES
    assert "graph breaks" in text


def test_a_command_cannot_close_its_fence(every_verdict: Check) -> None:
    text = markdown.render(msgspec.structs.replace(every_verdict, command="perfkit ```\n````\n<b>"))
    assert "`````\nperfkit ``` ```` <b>\n`````" in text


def test_mentions_and_addresses_call_nobody() -> None:
    assert escaped("@octocat zero2@2") == "@<!-- -->octocat zero2@2"
    assert escaped("https://x.y www.x.y") == "https:<!-- -->//x.y www<!-- -->.x.y"
    assert escaped("$x$ #1") == r"<span>$</span>x<span>$</span> \#1"


def test_a_link_goes_to_the_web_only() -> None:
    assert link("Report", "https://ci.example/a?b=c&d=1#x") == "[Report](<https://ci.example/a?b=c&d=1#x>)"
    assert link("Report", "https://ci.example/>)x") == "[Report](<https://ci.example/%3E%29x>)"
    assert link("Report", "javascript:alert(1)") == "Report: javascript:alert(1)"


@given(TEXT)
@settings(deadline=None)
def test_escaped_text_reads_as_it_was_in_a_paragraph_and_in_a_cell(text: str) -> None:
    whole = one_line(text)
    for document in (f"x {escaped(text)} x", f"| a |\n| --- |\n| x {escaped(text)} x |"):
        page = rendered(document)
        assert {tag for tag, _ in page.tags} <= {"p", "span", "table", "thead", "tbody", "tr", "th", "td"}
        assert "".join(page.words).split()[-1] == "x"
        assert "".join("".join(page.words).split()).endswith("".join(f"x{whole}x".split()))


@given(st.text(max_size=2000))
@settings(deadline=None, max_examples=30)
def test_long_text_is_cut_in_its_middle(text: str) -> None:
    assert len("".join(rendered(f"x{escaped(text)}").words).strip()) <= SENTENCE + 1
