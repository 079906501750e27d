"""Notes: what a reader has to know before relying on figures, each with a stable id."""

from collections.abc import Iterable
from typing import Any

from perfkit.core.note_kinds import NOTE_KINDS
from perfkit.core.spec import Struct
from perfkit.core.texts.error_text import cap_text


class Note(Struct):
    """A caveat, warning or remark on figures.

    `id` is its kind: stable, `subject.what` (`trace.no_steps`), one of `NOTE_KINDS`. `text` is a sentence without its
    period, `figures` the numbers and names in it by what they are (`missing`, `share`), where there are any.
    """

    id: str
    text: str
    figures: dict[str, int | float | str] = {}

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash((self.id, self.text))


def make_note(id: str, text: object, **figures: Any) -> Note:
    """A note of a listed kind."""
    assert id in NOTE_KINDS, f"{id} is not in perfkit/core/note_kinds.py"
    return Note(id=id, text=cap_text(str(text)), figures=figures)


def list_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    """The sentences of notes."""
    return tuple(note.text for note in notes)


def has_note(notes: Iterable[Note], *ids: str) -> bool:
    """True where a note is of one of these kinds."""
    return any(note.id in ids for note in notes)
