"""Describes repairs, omissions and assumptions of reading a trace."""

from collections import Counter

from perfkit.trace.reading.event_splitter import EventSplitter
from perfkit.trace.reading.text_blocks import TextBlocks
from perfkit.trace.reading.trace_metadata import TraceMetadata

# {s} is the plural's s.
_REMARKS = {
    "broken event": "{n} broken event{s} skipped",
    "impossible time": "{n} event{s} without a possible time skipped",
    "no phase": "{n} event{s} without a phase skipped",
    "unpaired": "{n} begin or end event{s} without a counterpart skipped",
    "negative duration": "{n} negative duration{s} taken as 0",
    "no duration": "{n} missing duration{s} taken as 0",
    "impossible duration": "{n} impossible duration{s} taken as 0",
    "untimed": "{n} device record{s} without a time skipped",
    "wrong type": "{n} event{s} with members of unexpected types, read in part",
    "invalid UTF-8": "{n} character{s} of invalid UTF-8 replaced",
    "control character": "{n} raw control character{s} in names replaced by blanks",
    "NaN or infinity": "{n} NaN or infinite number{s} read as missing",
    "trailing comma": "trailing commas removed from {n} event{s}",
    "half-quoted name": "missing quotes of member names restored in {n} event{s}",
    "unescaped quote": "unescaped quotes repaired in {n} event{s}",
    "unfinished": "{n} range{s} still open when the recording ended: later work is not in the trace",
    "overhead": "profiler overhead of {n} us inside the trace (buffers, flushes): times may be too long by that much",
    "names": "too many distinct names: {n} event{s} grouped under one",
    "signatures": "too many distinct signatures: inputs of {n} op{s} dropped",
}
IN_NANOSECONDS = "times are in nanoseconds, not microseconds"
_ONCE = {
    "in nanoseconds": IN_NANOSECONDS,
    "long ending": "text after the events is too long and was not read",
    "rank by name": "rank taken from the file name; not recorded in the file",
}


def format_remarks(
    counts: Counter[str], blocks: TextBlocks, splitter: EventSplitter, around: TraceMetadata
) -> tuple[str, ...]:
    """One sentence for each kind of repair, the most important first."""
    sentences = []
    if blocks.damage:
        sentences.append(f"{blocks.damage}: only the part before was read")
    if splitter.cut_at is not None:
        sentences.append(
            f"truncated: the JSON ends within its list of events; whole events up to byte {splitter.cut_at} were read"
        )
    elif not around.complete:
        sentences.append("metadata of the file is damaged and was read only in part")
    if blocks.encoding:
        sentences.append(f"encoded as {blocks.encoding}")
    sentences += [
        text.format(n=counts[name], s="" if counts[name] == 1 else "s")
        for name, text in _REMARKS.items()
        if counts[name]
    ]
    sentences += [text for name, text in _ONCE.items() if counts[name]]
    return tuple(sentences)
