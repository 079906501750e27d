"""Text that the strict decoders refuse: repaired where it can be, read event by event, and what is lost counted.

Every step is linear in the text: each event is looked at a fixed number of times.
"""

import re
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from perfkit.trace.chunks import structure, within_strings
from perfkit.trace.kineto import REFUSALS, AnyEvent, Decoders, EventArgs, ExactEvent

_WHITE = b"\n\r\t"  # allowed between the parts of JSON, but not within its strings
_CONTROL = bytes(each for each in range(0x20) if each not in _WHITE)
_BLANKED = bytes(max(each, 0x20) for each in range(256))
_NOT_A_NUMBER = re.compile(rb"(?<=[\s:,\[])[-+]?(?:NaN|nan|NAN|Infinity|infinity|inf|Inf|INF)(?=\s*[,}\]])")
_TRAILING_COMMA = re.compile(rb",(\s*[}\]])")

# A new event begins where one object ends and another begins with a member that events have. It holds for any state
# of the quotes before it, and few other lists of objects have such members.
_NEXT_EVENT = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|tts|cname)"\s*:')
_MEMBER = re.compile(rb'[{,]\s*"([^"\\]{1,80})"\s*:\s*"')
_END_OF_TEXT = re.compile(rb'"\s*(?:,\s*"[^"\\]{1,80}"\s*:|\})')
_QUOTE = re.compile(rb'(?<!\\)((?:\\\\)*)"')

_TEXTS = ("ph", "cat", "name")
_IDS = ("pid", "tid", "id")


class Salvaged(NamedTuple):
    """What was read, what follows the end of the list (None if it does not end here), and what was repaired."""

    events: list[AnyEvent]
    after: bytes | None
    notes: Counter[str]
    remainder: bytes  # the beginning of an event whose end is missing


def salvage(text: bytes, decoders: Decoders, *, final: bool) -> Salvaged:
    """The events of `text`, which begins with one. `final`: nothing comes after it, so its last event may be cut."""
    notes: Counter[str] = Counter()
    text = repair_text(text, notes)
    close = structure(text).close
    whole = text if close is None else text[:close]
    try:
        events = decoders.many.decode(b"".join((b"[", whole, b"]")))
    except REFUSALS:
        return _one_by_one(text, decoders, notes, final=final)
    return Salvaged(events, None if close is None else text[close + 1 :], notes, b"")


def repair_text(text: bytes, notes: Counter[str]) -> bytes:
    """Text without what no JSON may contain: bad UTF-8, raw control characters, numbers that are none."""
    try:
        text.decode()
    except UnicodeDecodeError:
        decoded = text.decode(errors="replace")
        notes["invalid UTF-8"] += decoded.count("\ufffd")
        text = decoded.encode()
    # Blanks mean nothing outside of strings, so all of them can go without looking where they stand.
    lost = len(text) - len(text.translate(None, _CONTROL)) + within_strings(text, _WHITE)
    if lost:
        notes["control character"] += lost
    blanked = text.translate(_BLANKED)
    text, count = _NOT_A_NUMBER.subn(b"null", blanked)
    if count:
        notes["NaN or infinity"] += count
    return text


def _one_by_one(text: bytes, decoders: Decoders, notes: Counter[str], *, final: bool) -> Salvaged:
    events: list[AnyEvent] = []
    begin = 0
    ends = [match.start(1) for match in _NEXT_EVENT.finditer(text)]
    for end in (*ends, len(text)):
        segment = text[begin:end]
        last = end == len(text)
        try:
            events.append(decoders.one.decode(segment))
        except REFUSALS:
            done, after, remainder = _segment(segment, decoders, notes, keep=final and last)
            events.extend(done)
            if after is not None:
                return Salvaged(events, after + text[end:], notes, b"")
            if last:
                return Salvaged(events, None, notes, remainder)
        begin = end + 1
    return Salvaged(events, None, notes, b"")


def _segment(
    text: bytes, decoders: Decoders, notes: Counter[str], *, keep: bool
) -> tuple[list[AnyEvent], bytes | None, bytes]:
    """Events of text that is not simply one; what follows the end of their list; an event whose end is missing."""
    marks = structure(text)
    close = marks.close
    commas = [each for each in marks.commas(0).tolist() if close is None or each < close]
    unfinished = close is None and len(marks.depth) > 0 and int(marks.depth[-1]) > 0
    events, begin = [], 0
    for end in (*commas, len(text) if close is None else close):
        piece = text[begin:end].strip()
        if piece:
            event = _event(piece, decoders, notes)
            if event is not None:
                events.append(event)
            elif keep and (unfinished or close is None) and end == len(text):
                return events, None, piece
            else:
                notes["broken event"] += 1
        begin = end + 1
    return events, None if close is None else text[close + 1 :], b""


def _event(text: bytes, decoders: Decoders, notes: Counter[str]) -> AnyEvent | None:
    """One event, by the mildest repair that makes it readable; None if none does."""
    for repair, note in (
        (None, ""),
        (_without_trailing_commas, "trailing comma"),
        (_with_escaped_quotes, "unescaped quote"),
    ):
        repaired = text if repair is None else repair(text)
        if repair is not None and repaired == text:
            continue
        try:
            event = decoders.one.decode(repaired)
        except msgspec.ValidationError:
            event_or_none = _coerced(repaired, decoders, notes)
            if event_or_none is None:
                return None
            event = event_or_none
        except REFUSALS:
            continue
        if note:
            notes[note] += 1
        return event
    return None


def _without_trailing_commas(text: bytes) -> bytes:
    return _TRAILING_COMMA.sub(rb"\1", text)


def _with_escaped_quotes(text: bytes) -> bytes:
    """Text in which a string ends only before the next member or the end of its object."""
    parts, done = [], 0
    while (member := _MEMBER.search(text, max(0, done - 1))) is not None:
        end = _END_OF_TEXT.search(text, member.end())
        if end is None:
            break
        inner = _QUOTE.sub(rb'\1\\"', text[member.end() : end.start()])
        parts += [text[done : member.end()], inner, b'"']
        done = end.start() + 1
    return b"".join((*parts, text[done:]))


def _coerced(text: bytes, decoders: Decoders, notes: Counter[str]) -> AnyEvent | None:
    """An event whose members are not of the types that events have."""
    try:
        value = msgspec.json.decode(text)
    except REFUSALS:
        return None
    if not isinstance(value, dict):
        return None
    notes["wrong type"] += 1
    kind = type(decoders.one.decode(b"{}"))
    event = kind()
    for name in _TEXTS:
        given = value.get(name)
        if isinstance(given, str | int | float):
            setattr(event, name, str(given))
    for name in _IDS:
        given = value.get(name)
        setattr(event, name, given if isinstance(given, str | int | float) else None)
    if kind is ExactEvent:
        event.ts = msgspec.Raw(_as_written(text))
    else:
        event.ts = _number(value.get("ts"))
    event.dur = _number(value.get("dur"))
    given = value.get("args")
    if isinstance(given, dict):
        event.args = _coerced_args(given)
    return event


class _Time(msgspec.Struct):
    ts: msgspec.Raw = msgspec.Raw()


def _as_written(text: bytes) -> bytes:
    return bytes(msgspec.json.decode(text, type=_Time).ts)


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, str | int | float) else float("nan")
    except (ValueError, OverflowError):
        return float("nan")


def _coerced_args(given: dict[str, Any]) -> EventArgs:
    args = EventArgs()
    for field in msgspec.structs.fields(EventArgs):
        value = given.get(field.encode_name)
        if value is None:
            continue
        if field.type is msgspec.Raw:
            setattr(args, field.name, msgspec.Raw(msgspec.json.encode(value)))
        elif isinstance(value, str | int | float):
            setattr(args, field.name, value)
    return args
