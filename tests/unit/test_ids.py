"""Every stable id: unique, well-formed, listed where it is used and used where it is listed."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from perfkit.analysis.model import estimate
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.check.judge.result import VERDICT_MEANINGS, Verdict
from perfkit.core.error_kinds import ERROR_KINDS, ERRORS, SKIP_REASONS, UNKNOWN_NAME, UNKNOWN_NAMES
from perfkit.core.note import Note, has_note, make_note
from perfkit.core.note_kinds import NOTE_KINDS, NOTES_BY_SUBJECT
from perfkit_cli.pages.ids_page import format_ids_page
from tests.structure import list_nodes

ROOT = Path(__file__).parents[2]
TABLES = ("note_kinds.py", "error_kinds.py")
FINDINGS = [kind.id for subject in SUBJECTS for kind in subject.kinds]


def list_strings() -> Iterator[str]:
    """Every string in the source but in the tables of ids."""
    for file, nodes in list_nodes().items():
        if not file.endswith(TABLES):
            yield from (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.fixture(scope="module")
def strings() -> set[str]:
    return set(list_strings())


def test_ids_are_unique_and_well_formed() -> None:
    ids = [*dict.fromkeys(FINDINGS), *NOTE_KINDS, *ERROR_KINDS]
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    assert [id for id in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z0-9]+(_[a-z0-9]+)*", id)] == []
    assert len(NOTE_KINDS) == sum(len(kinds) for kinds in NOTES_BY_SUBJECT.values())
    assert len(ERROR_KINDS) == len(ERRORS) + len(SKIP_REASONS) + len(UNKNOWN_NAMES)


def test_every_listed_id_is_used(strings: set[str]) -> None:
    assert sorted({*NOTE_KINDS, *ERROR_KINDS} - UNKNOWN_NAMES.keys() - strings) == []


def test_every_id_of_an_error_or_a_skip_is_listed(strings: set[str]) -> None:
    families = {id.partition(".")[0] for id in ERROR_KINDS} - {"run", "check", "error"}
    used = {text for text in strings if re.fullmatch(rf"({'|'.join(families)})\.[a-z_]*[a-z]", text)}
    files = {text for text in used if text.endswith((".json", ".py"))}
    assert sorted(used - ERROR_KINDS.keys() - files) == []


# What makes an id of the first word of its first argument, and the names of that argument within these.
NAMERS = ("make_unknown_name_error", "require_one_of", "Registry")
PASSED_ON = ("kind", "self.kind")


def list_unknown_kinds() -> Iterator[str]:
    """The first word of each kind of name that the source may not know."""
    for file, nodes in list_nodes().items():
        for node in nodes:
            if isinstance(node, ast.Call) and _get_last_name(node.func) in NAMERS:
                kind = node.args[0]
                first = kind.values[0] if isinstance(kind, ast.JoinedStr) else kind
                if isinstance(first, ast.Constant):
                    yield str(first.value).split()[0].lower()
                else:
                    assert ast.unparse(kind) in PASSED_ON, f"{file}: no word to form an id of"


def _get_last_name(called: ast.expr) -> str:
    match called:
        case ast.Subscript(value=value):  # a type's arguments
            return _get_last_name(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def test_every_id_that_is_formed_of_a_kind_is_listed_and_no_other() -> None:
    formed = {f"{UNKNOWN_NAME}{word}" for word in list_unknown_kinds()}
    assert sorted(formed - ERROR_KINDS.keys()) == []
    assert sorted(UNKNOWN_NAMES.keys() - formed) == []


def test_every_word_of_a_verdict_has_a_meaning() -> None:
    assert set(VERDICT_MEANINGS) == set(Verdict)
    for words, meanings in (
        (estimate.SpeedVerdict, estimate.SPEED_VERDICTS),
        (estimate.ParityVerdict, estimate.PARITY_VERDICTS),
        (estimate.ClaimOutcome, estimate.CLAIM_OUTCOMES),
        (estimate.Fit, estimate.FITS),
    ):
        assert get_args(words) == tuple(meanings)


def test_the_page_in_the_docs_lists_all_of_them() -> None:
    page = format_ids_page()
    assert (ROOT / "docs" / "ids.md").read_text() == page, "write it anew: make docs-reference"
    assert {*NOTE_KINDS, *ERROR_KINDS} <= set(re.findall(r"`([a-z_]+\.[a-z0-9_]+)`", page))


def test_a_note_is_of_a_listed_kind_and_reads_as_its_text() -> None:
    note = make_note("trace.no_steps", "no steps", count=0)
    assert (f"{note}", note.figures) == ("no steps", {"count": 0})
    assert has_note([note], "trace.no_ops", "trace.no_steps")
    assert not has_note([note], "trace.no_ops")
    assert len({note, Note(id="trace.no_steps", text="no steps", figures={"count": 0})}) == 1
    with pytest.raises(AssertionError, match=r"trace\.unheard"):
        make_note("trace.unheard", "?")
