"""Salvages text that strict decoding refuses: repairs it, reads it event by event, and counts the losses.

Every step is linear in the text: each event is looked at a fixed number of times.
"""

import re
from collections import Counter
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from perfkit.core.files import JSON_ERRORS
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.kineto.json_structure import analyze_structure, count_within_strings
from perfkit.trace.readers.kineto.kineto import AnyEvent, Event, EventDecoders, ExactEvent

_WHITE = b"\n\r\t"  # allowed between the parts of JSON, but not within its strings
_CONTROL = bytes(byte for byte in range(0x20) if byte not in _WHITE)
_BLANKED = bytes(max(byte, 0x20) for byte in range(256))
_WITHOUT_CONTROL = bytes(0x20 if byte in _CONTROL else byte for byte in range(256))
_NOT_A_NUMBER = re.compile(rb"(?<=[\s:,\[])[-+]?(?:NaN|nan|NAN|Infinity|infinity|inf|Inf|INF)(?=\s*[,}\]])")
_HALF_QUOTED = re.compile(rb'([{,]\s*)([A-Za-z_]\w*)":')
_TRAILING_COMMA = re.compile(rb",(\s*[}\]])")

# A new event begins where one object ends and another begins with a member that events have. It holds for any state
# of the quotes before it, and few other lists of objects have such members.
_NEXT_EVENT = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|tts|cname)"\s*:')
_END_OF_LIST = re.compile(rb'\}\s*(\])\s*(?:,\s*"[^"\\]{1,80}"\s*:|\}?\s*\Z)')
_MEMBER = re.compile(rb'[{,]\s*"([^"\\]{1,80})"\s*:\s*"')
_END_OF_TEXT = re.compile(rb'"\s*(?:,\s*"[^"\\]{1,80}"\s*:|\})')
_QUOTE = re.compile(rb'(?<!\\)((?:\\\\)*)"')

_ARGS = [(field.name, field.encode_name, field.type is msgspec.Raw) for field in msgspec.structs.fields(EventArgs)]
_TEXTS = ("ph", "cat", "name")
_IDS = ("pid", "tid", "id")


class SalvagedEvents(NamedTuple):
    """The events read, the text after the end of the list (None if it does not end here), and the repairs."""

    events: list[AnyEvent]
    after: bytes | None
    notes: Counter[str]
    remainder: bytes  # the beginning of an event whose end is missing


def salvage_events(text: bytes, decoders: EventDecoders, *, final: bool) -> SalvagedEvents:
    """The events of `text`, which begins with one. `final`: nothing comes after it, so its last event may be cut."""
    notes: Counter[str] = Counter()
    text = repair_text(text, notes)
    # Line breaks mean nothing outside strings, so all can be removed, wherever they are.
    blanked = text.translate(_BLANKED)
    close = analyze_structure(blanked).close
    for candidate in (text, blanked):
        try:
            events = decoders.many.decode(b"".join((b"[", candidate[:close], b"]")))
        except JSON_ERRORS:
            continue
        if final and close is None:
            break  # the text ends with a whole event, but the list goes on
        if candidate is blanked:
            notes["control character"] += count_within_strings(text, _WHITE)
        return SalvagedEvents(events, None if close is None else text[close + 1 :], notes, b"")
    return _salvage_one_by_one(blanked, decoders, notes, final=final)


def repair_text(text: bytes, notes: Counter[str]) -> bytes:
    """Remove what JSON cannot contain: invalid UTF-8, raw control characters, invalid numbers."""
    try:
        text.decode()
    except UnicodeDecodeError:
        decoded = text.decode(errors="replace")
        notes["invalid UTF-8"] += decoded.count("\ufffd")
        text = decoded.encode()
    lost = len(text) - len(text.translate(None, _CONTROL))
    if lost:
        notes["control character"] += lost
        text = text.translate(_WITHOUT_CONTROL)
    text, count = _NOT_A_NUMBER.subn(b"null", text)
    if count:
        notes["NaN or infinity"] += count
    return text


def _salvage_one_by_one(text: bytes, decoders: EventDecoders, notes: Counter[str], *, final: bool) -> SalvagedEvents:
    events: list[AnyEvent] = []
    begin = 0
    for match in _NEXT_EVENT.finditer(text):
        event = _read_event(text[begin : match.start(1)], decoders, notes)
        if event is not None:
            events.append(event)
        else:
            after = _read_segment(text[begin : match.start(1)], events, decoders, notes, keep=False)
            if after.list_ended:
                return SalvagedEvents(events, after.text + text[match.start(1) :], notes, b"")
        begin = match.end(1)
    after = _read_segment(text[begin:], events, decoders, notes, keep=final)
    if after.list_ended:
        return SalvagedEvents(events, after.text, notes, b"")
    return SalvagedEvents(events, None, notes, after.text)


class _SegmentRest(NamedTuple):
    """The text after a segment's events: the file's members after the list, or a truncated event."""

    list_ended: bool
    text: bytes


def _read_segment(
    text: bytes, events: list[AnyEvent], decoders: EventDecoders, notes: Counter[str], *, keep: bool
) -> _SegmentRest:
    """Add the events of text that may be several, none, or one and the end of their list."""
    commas, close, _ = analyze_structure(text)
    if close is None:
        # An unescaped quote hides the end: try where one usually stands.
        for match in islice(_END_OF_LIST.finditer(text), 4):
            event = _read_event(text[: match.start() + 1], decoders, notes)
            if event is not None:
                events.append(event)
                return _SegmentRest(True, text[match.end(1) :])
    begin = 0
    for end in chain(map(int, commas), (len(text) if close is None else close,)):
        piece = text[begin:end].strip()
        begin = end + 1
        if not piece:
            continue
        event = _read_event(piece, decoders, notes)
        if event is not None:
            events.append(event)
        elif keep and close is None and end == len(text):
            return _SegmentRest(False, piece)
        else:
            notes["broken event"] += 1
    return _SegmentRest(close is not None, b"" if close is None else text[close + 1 :])


def _read_event(text: bytes, decoders: EventDecoders, notes: Counter[str]) -> AnyEvent | None:
    """One event, by the mildest repair that makes it readable; None if none does."""
    if not text.lstrip(b" \n\r\t").startswith(b"{"):
        return None
    for repair, note in (
        (None, ""),
        (_strip_trailing_commas, "trailing comma"),
        (_rewrite_names, "half-quoted name"),
        (_rewrite_quotes, "unescaped quote"),
    ):
        repaired = text if repair is None else repair(text)
        if repair is not None and repaired == text:
            continue
        try:
            event = decoders.one.decode(repaired)
        except msgspec.ValidationError:
            event_or_none = _convert_event(repaired, decoders, notes)
            if event_or_none is None:
                return None
            event = event_or_none
        except JSON_ERRORS:
            continue
        if note:
            notes[note] += 1
        return event
    return None


def _strip_trailing_commas(text: bytes) -> bytes:
    return _TRAILING_COMMA.sub(rb"\1", text)


def _rewrite_names(text: bytes) -> bytes:
    """Names of members with the quote before them, which torch 1.4 forgot in its arrows."""
    return _HALF_QUOTED.sub(rb'\1"\2":', text)


def _rewrite_quotes(text: bytes) -> bytes:
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


def _convert_event(text: bytes, decoders: EventDecoders, notes: Counter[str]) -> AnyEvent | None:
    """An event whose members are not of the types that events have."""
    try:
        value = msgspec.json.decode(text)
    except JSON_ERRORS:
        return None
    if not isinstance(value, dict):
        return None
    notes["wrong type"] += 1
    event: AnyEvent = ExactEvent() if decoders.exact else Event()
    for name in _TEXTS:
        member = value.get(name)
        if isinstance(member, str | int | float):
            setattr(event, name, str(member))
    for name in _IDS:
        member = value.get(name)
        setattr(event, name, member if isinstance(member, str | int | float) else None)
    if isinstance(event, ExactEvent):
        event.ts = msgspec.Raw(_extract_raw_time(text))
    else:
        event.ts = _parse_number(value.get("ts"))
    event.dur = _parse_number(value.get("dur"))
    member = value.get("args")
    if isinstance(member, dict):
        event.args = _convert_args(member)
    return event


class _RawTime(msgspec.Struct):
    ts: msgspec.Raw = msgspec.Raw()


def _extract_raw_time(text: bytes) -> bytes:
    return bytes(msgspec.json.decode(text, type=_RawTime).ts)


def _parse_number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, str | int | float) else float("nan")
    except (ValueError, OverflowError):
        return float("nan")


def _convert_args(members: dict[str, Any]) -> EventArgs:
    args = EventArgs()
    for name, key, is_raw in _ARGS:
        value = members.get(key)
        if value is None:
            continue
        if is_raw:
            setattr(args, name, msgspec.Raw(msgspec.json.encode(value)))
        else:
            setattr(args, name, value)
    return args
