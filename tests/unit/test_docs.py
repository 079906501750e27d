"""Links in README, CONTRIBUTING, CHANGELOG and docs resolve, and the index lists every page."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks" / "results").rglob("*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
LINK = re.compile(r"\]\(\s*([^()\s]+)\s*\)")
README_WORDS = 600


def read_prose(page: Path) -> str:
    """The page without its blocks and spans of code."""
    text = re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "code", text)


def find_anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^(```+).*?^\1 *$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    counts: dict[str, int] = {}
    anchors = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchors.add(f"{slug}-{counts[slug]}" if slug in counts else slug)
        counts[slug] = counts.get(slug, 0) + 1
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(read_prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in find_anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_of_docs_is_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(read_prose(index))}
    pages = {path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "techniques" and path != index}
    assert pages <= linked


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= README_WORDS


def test_anchors_are_those_of_github() -> None:
    page = ROOT / "docs" / "cli.md"
    assert "perfkit-bench" in find_anchors(page)
