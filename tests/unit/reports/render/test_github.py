import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit.check.result import Check
from perfkit_reports.render import github as annotations
from perfkit_reports.render.github import SHOWN, Annotation
from tests.fixtures import sample_checks


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
        for level, properties, message in map(read, annotations.render(check).splitlines())
    ]


def test_each_variant_has_one_of_each_level(every_verdict: Check) -> None:
    found = shown(every_verdict)
    assert [(level, title) for level, title, _ in found] == [
        ("error", "perfkit check: gpt amp+compile"),
        ("warning", "perfkit check: mlp baseline"),
        ("warning", "perfkit check: gpt offload:what=activations:to=disk"),
        ("notice", "perfkit check: gpt flash"),
    ]
    lines = found[0][2].splitlines()
    assert lines[0] == "fail: peak allocated +5.8 % (exactly)"
    assert "graph breaks grew from 0 to 1, allowed +0" in lines
    assert lines[-1].startswith("suspect: activations at the peak grew")
    assert "not compared: after the change it ended with: out of memory" in found[2][2]


def test_a_side_that_does_not_train_any_more_is_an_error_with_the_reason() -> None:
    (error, warning) = shown(sample_checks.stopped())
    assert error[2] == "training to the end: now: out of memory: at step 3, peak 1.93 GiB of 2.00 GiB"
    assert warning[2].startswith("peak allocated, CPU time a step, step time not compared: now: ")


def test_a_pass_says_nothing() -> None:
    assert annotations.render(sample_checks.passing()) == ""


def test_no_more_than_github_shows_and_the_last_counts_the_rest() -> None:
    variant = sample_checks.regressed()
    for count, expected in ((SHOWN, SHOWN), (SHOWN + 1, SHOWN), (SHOWN + 5, SHOWN)):
        variants = tuple(msgspec.structs.replace(variant, variant=str(number)) for number in range(count))
        found = shown(msgspec.structs.replace(sample_checks.every_verdict(), variants=variants))
        assert len(found) == expected
        rest = count - SHOWN + 1
        assert (f"{rest} more variants" in found[-1][2]) == (count > SHOWN)


def test_properties_and_messages_are_escaped() -> None:
    made = Annotation("error", "100 %: a,b\r\n", "100 %: a,b\n::error::x")
    assert made.command == "::error title=100 %25%3A a%2Cb%0D%0A::100 %25: a,b%0A::error::x"


@given(st.text(st.sampled_from("%:,=\n\r0AD25 ::error") | st.characters(), max_size=60))
@settings(max_examples=100, deadline=None)
def test_text_comes_back_as_it_was_and_begins_no_command(text: str) -> None:
    line = Annotation("warning", text, text).command
    assert "\n" not in line
    assert "\r" not in line
    assert read(line) == ("warning", {"title": text}, text)


def test_hostile_names_stay_on_their_lines() -> None:
    lines = annotations.render(sample_checks.hostile()).split("\n")
    assert lines.pop() == ""
    assert all(line.startswith(("::error title=", "::warning title=", "::notice title=")) for line in lines)
