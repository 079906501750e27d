"""`perfkit findings`, and the page of findings in the docs, which is made of the rules."""

import json
import re
from pathlib import Path
from typing import Any

from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit_cli.pages.findings_page import format_page

PAGE = Path(__file__).parents[4] / "docs" / "findings.md"
IDS = [kind.id for subject in SUBJECTS for kind in subject.kinds]


def test_the_page_in_the_docs_is_that_of_the_rules() -> None:
    assert PAGE.read_text() == format_page(), "write it anew: perfkit findings --docs docs/findings.md"


def test_the_page_has_a_row_for_each_id_under_its_subject() -> None:
    sections = format_page().split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [subject.title for subject in SUBJECTS]
    for section, subject in zip(sections, SUBJECTS, strict=True):
        rows = re.findall(r"^- `([\w.]+)` \((\w+)\): .+ → .+$", section, re.MULTILINE)
        assert rows == [(kind.id, kind.severity) for kind in subject.kinds]


def test_it_lists_and_writes(perfkit_in_process: Any, tmp_path: Path) -> None:
    listed = perfkit_in_process("findings")
    assert [line.strip() for line in listed.stdout.splitlines() if line.startswith("  ")] == IDS
    kinds = json.loads(perfkit_in_process("findings", "--json").stdout)["findings"]
    assert [kind["id"] for kind in kinds] == list(dict.fromkeys(IDS))
    assert perfkit_in_process("findings", "--docs", str(tmp_path / "page.md")).returncode == 0
    assert (tmp_path / "page.md").read_text() == format_page()
