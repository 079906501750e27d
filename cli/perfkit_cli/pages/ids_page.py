"""Renders the page of all stable ids, `docs/ids.md`."""

from collections.abc import Iterator, Mapping

from perfkit.core.error_kinds import ERRORS, SKIP_REASONS, UNKNOWN_NAMES
from perfkit.core.note_kinds import NOTES_BY_SUBJECT
from perfkit_cli.pages.explanations import VERDICTS

_INTRO = """\
# Ids

<!-- Written by `make docs-reference`. -->

Sentences change between versions; ids do not. They are in the JSON and in reports: a finding's id is its anchor
(`#finding-fusion-elementwise`), a note's the attribute `data-note`, a verdict's `data-id`. `figures` next to an id
are the sentence's numbers by name. `perfkit explain ID` explains any of them; see [all findings](findings.md).

"""
_ERRORS_INTRO = """\
## Errors

`PerfkitError.id`. The first line of a message ends in it; `--json` prints `{"error": {"id": ..., "message": ...}}`.
"""
_SKIPS_INTRO = """\
## Skipped runs

`reason_id` of a run. A run that failed has the id of its error, "" for an exception that is not perfkit's.
"""
_NOTES_INTRO = """\
## Notes

`notes[].id` and `warnings[].id`: what to know before relying on figures.

"""


def format_ids_page() -> str:
    """All ids but those of findings, as Markdown; errors, skipped runs and verdicts with their meaning."""
    return _INTRO + "\n".join(_format_sections())


def _format_sections() -> Iterator[str]:
    yield from (_ERRORS_INTRO, *_format_list(ERRORS))
    yield "Unknown names: " + ", ".join(f"`{id}`" for id in UNKNOWN_NAMES) + "."
    yield ""
    yield from (_SKIPS_INTRO, *_format_list(SKIP_REASONS))
    notes = (f"- {subject}: {', '.join(f'`{id}`' for id in kinds)}" for subject, kinds in NOTES_BY_SUBJECT.items())
    yield _NOTES_INTRO + "\n".join(notes)
    yield ""
    yield from ("## Verdicts", "")
    for title, (field, words) in VERDICTS.items():
        yield from (f"### {title}", "", field, "", *_format_list(words))


def _format_list(kinds: Mapping[str, str]) -> Iterator[str]:
    yield from (f"- `{id}`: {meaning}" for id, meaning in kinds.items())
    yield ""
