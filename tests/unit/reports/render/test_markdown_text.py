import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perfkit_reports.plain_text import flatten_text
from perfkit_reports.render.markdown_text import LONGEST, escape_markdown, format_link
from tests.fixtures.parsed_page import Page

# What markup is made of, among any other characters.
TEXT = st.text(st.sampled_from("\\`*_[]()<>|~#&;:/@$!-+=.\n\r\x00\x1b\ud800w1 ") | st.characters(), max_size=80)


def rendered(text: str) -> Page:
    """As a host shows it: CommonMark with tables, strikethrough and HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return Page(parser.render(text))


def test_mentions_and_addresses_call_nobody() -> None:
    assert escape_markdown("@octocat zero2@2") == "@<!-- -->octocat zero2@2"
    assert escape_markdown("https://x.y www.x.y") == "https:<!-- -->//x.y www<!-- -->.x.y"
    assert escape_markdown("$x$ #1") == r"<span>$</span>x<span>$</span> \#1"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ci.example/a?b=c&d=1#x", "[Report](<https://ci.example/a?b=c&d=1#x>)"),
        ("https://ci.example/>)x", "[Report](<https://ci.example/%3E%29x>)"),
        ("javascript:alert(1)", "Report: javascript:alert(1)"),
    ],
)
def test_a_link_goes_to_the_web_only(address: str, shown: str) -> None:
    assert format_link("Report", address) == shown


@given(TEXT)
@settings(deadline=None)
def test_text_reads_as_it_was_in_a_paragraph_and_in_a_cell(text: str) -> None:
    whole = flatten_text(text)
    for document in (f"x {escape_markdown(text)} x", f"| a |\n| --- |\n| x {escape_markdown(text)} x |"):
        page = rendered(document)
        assert {tag for tag, _ in page.tags} <= {"p", "span", "table", "thead", "tbody", "tr", "th", "td"}
        assert "".join(page.words).split()[-1] == "x"
        assert "".join("".join(page.words).split()).endswith("".join(f"x{whole}x".split()))


@given(st.text(max_size=2000))
def test_long_text_is_cut_in_its_middle(text: str) -> None:
    assert len("".join(rendered(f"x{escape_markdown(text)}").words).strip()) <= LONGEST + 1
