"""The summary for a notebook: whole in itself, and legible on any ground."""

import re
from pathlib import Path

from perfkit.analysis.model.suite import Analysis
from perfkit_reports import headline, notebook
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import realistic


def test_it_is_whole_in_itself(analysis: Analysis) -> None:
    page = Page(notebook.render(analysis, Path("/runs/x/report.html")))
    assert {tag for tag, _ in page.tags} & {"script", "style", "link", "iframe", "html", "body"} == set()
    sources = [attributes.get("src") or "" for _, attributes in page.tags if "src" in attributes]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_it_tells_the_headline_and_every_variant(analysis: Analysis) -> None:
    words = re.sub(r"\s+", " ", " ".join(Page(notebook.render(analysis, Path("/runs/x/report.html"))).words))
    assert headline.headline(analysis) in words
    assert all(variant.name in words for variant in analysis.variants)
    assert "/runs/x/report.html" in words


def test_text_has_the_notebooks_colour_and_figures_stand_on_white() -> None:
    page = Page(notebook.render(realistic(), Path("report.html")))
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 3
    assert all("background:#fff" in (image["style"] or "") and image["alt"] for image in images)
    others = [attributes.get("style") or "" for tag, attributes in page.tags if tag != "img"]
    assert not any(re.search(r"(?<!-)color:(?!inherit)|background:(?!none)", style) for style in others)
