import json

import msgspec
import plotly.graph_objects as go
import pytest

from perfkit.check.result import Check
from perfkit_reports.charts.pairs import pairs_figure
from perfkit_reports.check import html
from tests.fixtures import sample_checks as sample
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE


@pytest.mark.parametrize("name", sample.ALL)
def test_every_check_makes_a_page_that_loads_nothing_and_is_not_broken_out_of(name: str) -> None:
    check = sample.ALL[name]()
    made = Page(html.render(check))
    assert made.loaded() == []
    assert made.intruders() == []
    ids = {attributes["id"] for tag, attributes in made.tags if tag == "section"}
    links = {(attributes.get("href") or "")[1:] for tag, attributes in made.tags if tag == "a"}
    assert ids <= links
    assert links <= ids | {"main"}
    assert msgspec.json.decode(made.scripts["check-data"], type=Check) == check


def test_hostile_text_is_there_as_text() -> None:
    assert HOSTILE.split("\n")[0] in Page(html.render(sample.hostile())).text


def test_the_page_tells_the_story() -> None:
    text = Page(html.render(sample.every_verdict())).text.replace("\u00a0", " ")
    for part in (
        "✗ fail",
        "in 1 of 4 variants",
        "origin/main",
        "revision 9c1e77a",
        "2 of 26 pairs were left out",
        "aten::_softmax in blocks.*.attn (forward) takes 0.91 ms a step more",
        "241 MiB → 259 MiB +18.0 MiB",
        "To decide: about",
        "Timed in lock step.",
        "after the change it ended with: out of memory",
    ):
        assert part in text, part


def test_what_differs_between_the_machines_is_marked() -> None:
    made = Page(html.render(sample.other_machine()))
    assert sum(attributes.get("class") == "differs" for tag, attributes in made.tags if tag == "tr") == 2
    assert "the environments differ: cpu_model: AMD EPYC 9354 -> AMD EPYC 7763" in made.text


def test_variants_that_need_a_look_come_first_and_open() -> None:
    made = Page(html.render(sample.one_of_two()))
    folds = [attributes for tag, attributes in made.tags if tag == "details" and attributes["class"] == "fold variant"]
    # Both have a fold among the quantities and one among the pairs; it is known why one of them got worse.
    assert ["open" in attributes for attributes in folds] == [True, False, True, True, False]
    assert made.text.index("gpt amp+compile") < made.text.index("gpt baseline")


def test_a_bar_says_in_words_what_it_shows() -> None:
    made = Page(html.render(sample.better()))
    words = [attributes["aria-label"] for tag, attributes in made.tags if tag == "svg" and "role" in attributes]
    assert any(label.startswith("step time: -") and label.endswith("threshold 5%") for label in words)


def test_the_pairs_are_one_dot_each_with_the_mean_so_far() -> None:
    variant = sample.improved()
    drawn = pairs_figure(variant)
    assert drawn is not None
    go.Figure(drawn)
    wall, running, cpu, _ = drawn["data"]
    assert len(wall["x"]) == len(cpu["x"]) == len(variant.pairs)
    assert running["y"][0] == wall["y"][0]
    assert [line["y0"] for line in drawn["layout"]["shapes"]] == [pytest.approx(5.0), pytest.approx(3.0)]
    json.dumps(drawn)


def test_without_pairs_there_is_no_figure() -> None:
    assert pairs_figure(sample.did_not_run()) is None
