"""The text of a trace, cut into pieces of whole events as it comes in; the members of the file around them are kept."""

import re
from collections import Counter
from collections.abc import Callable

from perfkit.errors import RunFormatError
from perfkit.trace.chunks import last_boundary, structure
from perfkit.trace.kineto import AnyEvent, Decoders
from perfkit.trace.tolerant import repair_text, salvage

# Nothing that belongs together is larger: an event, or what the file states beside its events.
LONGEST_BYTES = 64 << 20

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*(?=\S)')
_BLANK = b" \n\r\t"
_SEPARATORS = _BLANK + b","


class Splitter:
    """Feeds whole events to `add`, which says whether it could read them; what it refused, repaired, to `add_events`.

    After `finish`: `surroundings` is the file without its events (empty where it is only a list); `cut_at` the offset
    at which it breaks off, None if it is whole; `notes` what was repaired.
    """

    def __init__(
        self,
        label: str,
        add: Callable[[bytes], bool],
        add_events: Callable[[list[AnyEvent], bytes], bool],
        decoders: Callable[[], Decoders],
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
        self._nested = False  # events hold lists of objects, so boundaries have to be looked for thoroughly

    @property
    def has_begun(self) -> bool:
        """Whether the beginning of the events has been seen, but not their end."""
        return self._before is not None and self._after is None

    def feed(self, block: bytes) -> None:
        """Take the next block of text."""
        self._fed += len(block)
        if self._after is not None:
            self._keep(block)
            return
        self._rest = self._rest + block if self._rest else block
        if self._before is None and not self._begin():
            return
        self._read(final=False)

    def finish(self) -> None:
        """No text comes any more."""
        if self._before is None:
            self._refuse_other_content()
        if self._after is None:
            self._read(final=True)
        if self._before:
            self.surroundings = b"".join((self._before, b"null", *(self._after or [])))

    def take_rest(self) -> bytes:
        """The text not yet read, to be cut elsewhere and fed again."""
        rest, self._rest = self._rest, b""
        self._fed -= len(rest)
        return rest

    def _begin(self) -> bool:
        first = self._rest.lstrip(_BLANK)[:1]
        if first == b"[":
            self._before, self._rest = b"", self._rest[self._rest.index(b"[") + 1 :]
            return True
        if first and first != b"{":
            raise RunFormatError(
                f"{self._label}: not a trace of torch.profiler: not JSON, begins with {self._rest[:12]!r}"
            )
        for match in _EVENTS.finditer(self._rest):
            head = self._rest[: match.start()]
            depth = structure(head).depth
            if len(depth) and depth[-1] != 1:
                continue
            at = match.end()
            if self._rest[at : at + 1] != b"[":
                given = self._rest[at : at + 20].decode(errors="replace")
                raise RunFormatError(
                    f"{self._label}: not a trace of torch.profiler: traceEvents is not a list of events but {given!r}"
                )
            self._before, self._rest = self._rest[:at], self._rest[at + 1 :]
            return True
        self._check_length("no events")
        return False

    def _read(self, *, final: bool) -> None:
        if self._rest[:1] in (b",", b" ", b"\n", b"\r", b"\t"):
            self._rest = self._rest.lstrip(_SEPARATORS)
        text = self._rest
        if not final and not self._nested:
            cut = last_boundary(text)
            if cut == 0 and b"]" not in text[-4096:]:
                self._check_length("no end of an event")
                return
            if cut and self._add(text[:cut]):
                self._rest = text[cut + 1 :]
                return
        marks = structure(text)
        close = marks.close
        commas = marks.commas(0)
        if close is not None:
            cut = close
        elif len(commas):
            cut = int(commas[-1])
        else:
            cut = len(text) if final and len(marks.depth) and marks.depth[-1] == 0 else 0
        if cut == 0 and close is None and not final:
            self._check_length("no end of an event")
            return
        piece = text[:cut].strip(_SEPARATORS)
        if cut and (not piece or self._add(piece)):
            self._nested = close is None
            if close is not None:
                self._end(text[close + 1 :])
            elif not final:
                self._rest = text[cut + 1 :]
            elif text[cut:].strip(_SEPARATORS):
                self._salvage(text[cut + 1 :], final=True)
            else:
                self._break_off(b"")
            return
        if close == 0:
            self._end(text[1:])
            return
        self._salvage(text, final=final)

    def _salvage(self, text: bytes, *, final: bool) -> None:
        cut = len(text) if final else last_boundary(text)
        if cut == 0 and not final:
            self._check_length("no end of an event")
            return
        while True:
            salvaged = salvage(text[:cut], self._decoders(), final=final)
            if self._add_events(salvaged.events, text):
                break
        self.notes += salvaged.notes
        if salvaged.after is not None:
            self._end(salvaged.after + text[cut:])
        elif final:
            self._break_off(salvaged.remainder)
        else:
            self._rest = text[cut + 1 :]

    def _break_off(self, remainder: bytes) -> None:
        self.cut_at = self._fed - len(remainder)
        self._rest = b""

    def _end(self, after: bytes) -> None:
        self._rest, self._after = b"", []
        self._keep(after)

    def _keep(self, text: bytes) -> None:
        assert self._after is not None
        self._after_bytes += len(text)
        if self._after_bytes > LONGEST_BYTES:
            self.notes["long ending"] = 1
        else:
            self._after.append(text)

    def _check_length(self, what: str) -> None:
        if len(self._rest) > LONGEST_BYTES:
            where = f"{LONGEST_BYTES >> 20} MiB of text from byte {self._fed - len(self._rest)}"
            raise RunFormatError(f"{self._label}: not a trace of torch.profiler: {what} in {where}")

    def _refuse_other_content(self) -> None:
        text = self._rest.strip(_BLANK)
        if not text:
            raise RunFormatError(f"{self._label}: empty, or cut off before its first text; record or copy it again")
        marks = structure(repair_text(text, Counter()))
        if len(marks.depth) and marks.depth[-1] == 0:
            raise RunFormatError(f"{self._label}: not a trace of torch.profiler: a JSON object without traceEvents")
        raise RunFormatError(
            f"{self._label}: truncated or damaged before its events begin: ends after {self._fed} bytes of JSON; "
            "record or copy it again"
        )
