"""docs/json.md, which is made of the structs that JSON files are written from."""

from pathlib import Path

from perfkit.analysis.model.suite import Variant
from perfkit_cli.json_page import ROOTS, format_json_page

PAGE = Path(__file__).parents[3] / "docs" / "json.md"


def test_the_page_in_the_docs_is_that_of_the_structs() -> None:
    assert PAGE.read_text() == format_json_page(), "write it anew: make docs-reference"


def test_each_file_has_a_section_and_each_struct_one_with_all_fields() -> None:
    page = format_json_page()
    assert [it.partition("\n")[0] for it in page.split("\n## ")[1:]] == list(ROOTS)
    sections = page.split("\n### ")[1:]
    names = [section.partition("\n")[0] for section in sections]
    assert len(names) == len(set(names))
    variant = sections[names.index("Variant")]
    rows = [line.split("`")[1] for line in variant.splitlines() if line.startswith("| `")]
    assert rows == list(Variant.__struct_fields__)
    links = {link.partition(")")[0] for link in page.split("](#")[1:]}
    assert links == {name.lower() for name in names}


def test_types_are_those_of_json() -> None:
    page = format_json_page()
    estimate = page.split("\n### MedianEstimate\n")[1].partition("\n### ")[0]
    assert '| `type` | `"estimate"` |' in estimate
    assert "| `per_process` | array of number |" in estimate
    assert "| `low` | number or null |" in estimate
