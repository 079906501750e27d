"""Splits the text of a trace into pieces of whole events as it arrives; other members of the file are kept."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from perfkit.core.errors import RunFormatError
from perfkit.trace.readers.kineto.json_structure import analyze_structure, find_last_boundary
from perfkit.trace.readers.kineto.kineto import AnyEvent, EventDecoders
from perfkit.trace.readers.kineto.salvage_events import repair_text, salvage_events

# Nothing that belongs together is larger: an event, or what the file states beside its events.
LONGEST_BYTES = 64 << 20

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*(?=\S)')
_BLANK = b" \n\r\t"
_SEPARATORS = _BLANK + b","
_SEPARATOR_LIST = (b" ", b"\n", b"\r", b"\t", b",")


def find_events_begin(text: bytes) -> int | None:
    """The position of the first event in a trace's text; None if its list of events has not begun."""
    stripped = text.lstrip(_BLANK)
    if stripped[:1] == b"[":
        return len(text) - len(stripped) + 1
    return next((at + 1 for at in _find_members(text, 0) if text[at : at + 1] == b"["), None)


def _find_members(text: bytes, searched: int) -> Iterator[int]:
    """The positions of the values of the top-level members `traceEvents`."""
    for match in _EVENTS.finditer(text, searched):
        if analyze_structure(text[: match.start()]).depth == 1:
            yield match.end()


class EventSplitter:
    """Feeds whole events to `add`, which returns whether it could read them; refused ones are repaired and passed to
    `add_events`.

    After `finish`: `surroundings` is the file without its events (empty where it is only a list); `cut_at` the offset
    at which it breaks off, None if it is whole; `notes` what was repaired.
    """

    def __init__(
        self,
        label: str,
        add: Callable[[bytes], bool],
        add_events: Callable[[list[AnyEvent], bytes], bool],
        decoders: Callable[[], EventDecoders],
    ) -> None:
        self.notes: Counter[str] = Counter()
        self.cut_at: int | None = None
        self.surroundings = b""
        self._label, self._add, self._add_events, self._decoders = label, add, add_events, decoders
        self._rest = b""  # the text not yet read
        self._fed = 0
        self._before: bytes | None = None  # the text before the events, once they have begun
        self._after: list[bytes] | None = None  # the text after them, once they have ended
        self._after_bytes = 0
        self._searched = 0  # length of the text already searched for events
        self._wait_for = 0  # bytes before it is worth while to look for a boundary again
        self._nested = False  # events hold lists of objects, so boundaries have to be looked for thoroughly

    @property
    def has_begun(self) -> bool:
        """True between the beginning and the end of the events."""
        return self._before is not None and self._after is None

    def take_block(self, block: bytes) -> None:
        """Take the next block of text."""
        self._fed += len(block)
        if self._after is not None:
            self._keep_after(block)
            return
        self._rest = self._rest + block if self._rest else block
        if self._before is None and not self._find_beginning():
            return
        self._read_pieces(final=False)

    def finish(self) -> None:
        """End of the text."""
        if self._before is None:
            self._refuse_other_content()
        if self._after is None:
            self._read_pieces(final=True)
        if self._before:
            self.surroundings = b"".join((self._before, b"null", *(self._after or [])))

    def resume(self, pieces: list[bytes]) -> None:
        """Take back pieces that had been added, to cut their text elsewhere."""
        text = b",".join(pieces)
        if self._after is None:
            self._rest = text + b"," + self._rest
        else:
            self._rest = b"".join((text, b"]", *self._after))
            self._after, self._after_bytes = None, 0
        self._wait_for = 0
        self._read_pieces(final=False)

    def _find_beginning(self) -> bool:
        if not self._searched:
            self._rest = self._rest.lstrip(_BLANK)
        first = self._rest[:1]
        if first == b"[":
            self._before, self._rest = b"", self._rest[1:]
            return True
        if first and first != b"{":
            raise RunFormatError(
                f"{self._label}: not a torch.profiler trace: not JSON (begins with {self._rest[:12]!r})"
            )
        for at in _find_members(self._rest, self._searched):
            if self._rest[at : at + 1] != b"[":
                text = self._rest[at : at + 20].decode(errors="replace")
                raise RunFormatError(
                    f"{self._label}: not a torch.profiler trace: traceEvents is not a list of events but {text!r}"
                )
            self._before, self._rest = self._rest[:at], self._rest[at + 1 :]
            return True
        self._check_length("no events")
        self._searched = max(
            0, self._rest.rfind(b'"traceEvents', self._searched), len(self._rest) - len('"traceEvents"')
        )
        return False

    def _read_pieces(self, *, final: bool) -> None:
        if self._rest[:1] in _SEPARATOR_LIST:
            self._rest = self._rest.lstrip(_SEPARATORS)
        text = self._rest
        if len(text) < self._wait_for and not final:
            return
        cut = 0 if final or self._nested else find_last_boundary(text)
        if cut and self._add(text[:cut]):
            self._skip_to(cut + 1)
            return
        marks = analyze_structure(text)
        if marks.close is not None:
            self._read_last(text[: marks.close], text[marks.close + 1 :], final=final)
        elif final:
            self._salvage_text(text, final=True)
        elif len(marks.commas) and self._add(text[: int(marks.commas[-1])]):
            self._nested = True
            self._skip_to(int(marks.commas[-1]) + 1)
        elif cut:
            self._salvage_text(text, final=False)
        else:
            self._check_length("no end of an event")
            self._wait_for = 2 * len(text)  # looking again at every block would make it quadratic

    def _read_last(self, text: bytes, after: bytes, *, final: bool) -> None:
        events = text.rstrip(_SEPARATORS)
        if not events or self._add(events):
            self._end_events(after)
        else:
            self._salvage_text(self._rest, final=final)

    def _skip_to(self, at: int) -> None:
        self._rest, self._wait_for = self._rest[at:], 0

    def _salvage_text(self, text: bytes, *, final: bool) -> None:
        cut = len(text) if final else find_last_boundary(text)
        while True:
            salvaged = salvage_events(text[:cut], self._decoders(), final=final)
            if self._add_events(salvaged.events, text):
                break
        self.notes += salvaged.notes
        if salvaged.after is not None:
            self._end_events(salvaged.after + text[cut:])
        elif final:
            self._mark_cut(salvaged.remainder)
        else:
            self._skip_to(cut + 1)

    def _mark_cut(self, remainder: bytes) -> None:
        self.cut_at = self._fed - len(remainder)
        self._rest = b""

    def _end_events(self, after: bytes) -> None:
        self._rest, self._after = b"", []
        self._keep_after(after)

    def _keep_after(self, text: bytes) -> None:
        assert self._after is not None
        self._after_bytes += len(text)
        if self._after_bytes > LONGEST_BYTES:
            self.notes["long ending"] = 1
        else:
            self._after.append(text)

    def _check_length(self, what: str) -> None:
        if len(self._rest) > LONGEST_BYTES:
            where = f"{LONGEST_BYTES >> 20} MiB of text from byte {self._fed - len(self._rest)}"
            raise RunFormatError(f"{self._label}: not a torch.profiler trace: {what} in {where}")

    def _refuse_other_content(self) -> None:
        text = self._rest.strip(_BLANK)
        if not text:
            raise RunFormatError(f"{self._label}: empty, or cut off before its first text; record or copy it again")
        if analyze_structure(repair_text(text, Counter())).depth == 0:
            raise RunFormatError(f"{self._label}: not a torch.profiler trace: a JSON object without traceEvents")
        raise RunFormatError(
            f"{self._label}: truncated or damaged before its events begin: ends after {self._fed} bytes of JSON; "
            "record or copy it again"
        )
