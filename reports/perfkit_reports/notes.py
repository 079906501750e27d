"""Notes as reports word them: the sentence changes, the id stays."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from perfkit.core.note import Note


def map_texts(word: Callable[[str], str], notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes with each text as `word` makes it."""
    return tuple(replace(note, text=word(note.text)) for note in notes)
