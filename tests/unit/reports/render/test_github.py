import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perfkit.check.judge.result import Check, Verdict
from perfkit.core.note import make_note
from perfkit_reports.render import github
from perfkit_reports.render.github import SHOWN, WorkflowAnnotation
from perfkit_reports.subjects.check.check_document import build_document
from tests.fixtures import sample_checks
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page

OFFLOAD = "offload:what=activations:to=disk"


def read(line: str) -> tuple[str, dict[str, str], str]:
    """(level, properties, message) as the runner reads a line (ActionCommand.TryParseV2 of actions/runner)."""
    assert line.startswith("::")
    command, _, data = line[2:].partition("::")
    level, _, given_ = command.partition(" ")
    properties = dict(each.split("=", 1) for each in given_.split(","))
    undone = {
        key: value.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
        for key, value in properties.items()
    }
    return level, undone, data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def shown(check: Check) -> list[tuple[str, str, str]]:
    """(level, title, message) of each."""
    return [
        (level, properties["title"], message)
        for level, properties, message in map(read, github.format_annotations(build_document(check)).splitlines())
    ]


def test_each_variant_has_one_of_each_level(every_verdict: Check) -> None:
    found = shown(every_verdict)
    assert all(title.startswith("perfkit check: ") for _, title, _ in found)
    assert [(level, title.partition(": ")[2]) for level, title, _ in found] == [
        ("error", "gpt amp+compile"),
        ("warning", "mlp baseline"),
        ("warning", f"gpt {OFFLOAD}"),
        ("notice", "gpt flash"),
    ]
    lines = found[0][2].splitlines()
    assert lines[0].startswith("fail: peak allocated +5.8 % ")
    (breaks,) = (line for line in lines if line.startswith("graph breaks "))
    assert list_figures(breaks) == ["0", "1", "+0"]
    assert lines[-1].startswith("suspect: activations ")
    assert found[2][2].startswith("not compared: peak allocated")
    assert "out of memory" in found[2][2]


def test_a_side_that_does_not_train_any_more_is_an_error_with_the_reason() -> None:
    (error, warning) = shown(sample_checks.stopped())
    assert error[2].startswith("fail: ")
    assert list_figures(error[2]) == ["3", "1.93 GiB", "2.00 GiB"]
    assert warning[2].startswith("not compared: peak allocated")


def test_what_is_worse_is_a_warning_that_begins_with_how_busy_the_machine_was() -> None:
    ((level, _, message),) = shown(sample_checks.worse())
    assert level == "warning"
    first, cpu, *_ = message.splitlines()
    assert list_figures(first) == ["1.6", "2"]
    assert cpu.startswith("worse: CPU time ")


def test_what_is_worse_is_an_error_where_it_is_to_fail() -> None:
    ((level, _, _),) = shown(msgspec.structs.replace(sample_checks.worse(), fail_on=Verdict.WORSE))
    assert level == "error"


def test_a_pass_says_nothing() -> None:
    assert github.format_annotations(build_document(sample_checks.passing())) == ""


def test_no_more_than_github_shows_and_the_last_counts_the_rest() -> None:
    variant = sample_checks.regressed()
    for count, expected in ((SHOWN, SHOWN), (SHOWN + 1, SHOWN), (SHOWN + 5, SHOWN)):
        variants = tuple(msgspec.structs.replace(variant, variant=str(number)) for number in range(count))
        found = shown(msgspec.structs.replace(sample_checks.every_verdict(), variants=variants))
        assert len(found) == expected
        rest = count - SHOWN + 1
        assert (f"{rest} more variants" in found[-1][2]) == (count > SHOWN)


def test_properties_and_messages_are_escaped() -> None:
    made = WorkflowAnnotation("error", "100 %: a,b\r\n", "100 %: a,b\n::error::x")
    assert made.command == "::error title=100 %25%3A a%2Cb%0D%0A::100 %25: a,b%0A::error::x"


@given(st.text(st.sampled_from("%:,=\n\r0AD25 ::error") | st.characters(), max_size=60))
def test_text_comes_back_as_it_was_and_begins_no_command(text: str) -> None:
    line = WorkflowAnnotation("warning", text, text).command
    assert "\n" not in line
    assert "\r" not in line
    assert read(line) == ("warning", {"title": text}, text)


def test_hostile_names_stay_on_their_lines() -> None:
    lines = github.format_annotations(build_document(sample_checks.hostile())).split("\n")
    assert lines.pop() == ""
    assert all(line.startswith(("::error title=", "::warning title=", "::notice title=")) for line in lines)


def rendered(text: str) -> Page:
    """As a host shows it: CommonMark with tables, strikethrough and HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return Page(parser.render(text))


def test_the_comment_begins_with_its_mark_and_the_verdict(every_verdict: Check) -> None:
    text = github.format_comment(build_document(every_verdict))
    assert text.startswith("<!-- perfkit check -->\n\n## ✗ fail: 4 of 19 ")


def test_a_comment_has_the_worst_first_and_how_to_reproduce_it(every_verdict: Check) -> None:
    page = rendered(github.format_comment(build_document(every_verdict), report="https://ci.example/7/report.html"))
    order = ("Likely causes", "to decide: about 68 more pairs", "✗ fail", "▲ improved", "✓ pass", "Reproduce")
    places = [page.text.index(words, len("✗ fail: ")) for words in order]
    assert places == sorted(places)
    assert page.loaded() == [("a", "https://ci.example/7/report.html")]


def test_a_report_that_is_a_file_is_named_and_not_linked(every_verdict: Check) -> None:
    text = github.format_comment(build_document(every_verdict), report="report.html")
    assert text.endswith("\n\nReport: report.html\n")
    assert rendered(text).loaded() == []


def test_no_text_of_a_check_forms_markup(check: Check) -> None:
    page = rendered(github.format_comment(build_document(check), limit=github.SUMMARY_BYTES))
    headings = {"h2", "h3", "h4"}
    assert {tag for tag, _ in page.tags} <= {
        *headings,
        *("p", "ul", "ol", "li", "strong", "table", "thead", "tbody", "tr", "th", "td"),
        *("details", "summary", "pre", "code", "span"),
    }
    assert all(not attributes for _, attributes in page.tags)


@pytest.mark.parametrize("limit", [6_000, github.COMMENT_BYTES, github.SUMMARY_BYTES])
def test_a_comment_stays_within_the_limit(check: Check, limit: int) -> None:
    assert len(github.format_comment(build_document(check), limit=limit).encode()) <= limit


def test_what_has_no_room_is_counted_and_how_to_reproduce_it_is_kept() -> None:
    text = github.format_comment(build_document(sample_checks.many(400)))
    assert len(text.encode()) <= github.COMMENT_BYTES
    assert re.search(r"\n[\d,]+ more .* tables/judged.parquet\n", text)
    assert text.count("✗ fail") > 50
    assert "Reproduce" in text
    assert "13 parts" in github.format_comment(build_document(sample_checks.every_verdict()), limit=3000)


def test_longer_texts_than_any_one_needs_leave_room_for_the_rest(every_verdict: Check) -> None:
    long = "$|<" * 50_000
    side = msgspec.structs.replace(every_verdict.before, label=long, revision=long)
    variant = msgspec.structs.replace(every_verdict.variants[0], variant=long)
    check = msgspec.structs.replace(
        every_verdict,
        command=long,
        before=side,
        after=side,
        notes=(make_note("check.pairs", long),),
        variants=(variant,),
    )
    text = github.format_comment(build_document(check))
    assert len(text.encode()) <= github.COMMENT_BYTES
    assert "graph breaks" in text


def test_a_command_cannot_close_its_fence(every_verdict: Check) -> None:
    text = github.format_comment(
        build_document(msgspec.structs.replace(every_verdict, command="perfkit ```\n````\n<b>"))
    )
    assert "`````\nperfkit ``` ```` <b>\n`````" in text
