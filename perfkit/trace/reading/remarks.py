"""Describes what was repaired, skipped or assumed while reading a trace, in words."""

from collections import Counter

from perfkit.trace.reading.event_splitter import EventSplitter
from perfkit.trace.reading.text_blocks import TextBlocks
from perfkit.trace.reading.trace_metadata import TraceMetadata

# {s} is the plural's s.
_REMARKS = {
    "broken event": "{n} broken event{s} skipped",
    "impossible time": "{n} event{s} without a possible time skipped",
    "no phase": "{n} event{s} without a phase skipped",
    "unpaired": "{n} begin or end event{s} without a partner skipped",
    "negative duration": "{n} negative duration{s} taken as 0",
    "no duration": "{n} missing duration{s} taken as 0",
    "impossible duration": "{n} impossible duration{s} taken as 0",
    "untimed": "{n} record{s} of the device's work without a time left out",
    "wrong type": "{n} event{s} with members of unexpected types, read as far as they make sense",
    "invalid UTF-8": "{n} character{s} of invalid UTF-8 replaced",
    "control character": "{n} raw control character{s} in names replaced by blanks",
    "NaN or infinity": "{n} NaN or infinite number{s} read as missing",
    "trailing comma": "trailing commas removed from {n} event{s}",
    "half-quoted name": "quotes before names of members restored in {n} event{s}",
    "unescaped quote": "unescaped quotes repaired in {n} event{s}",
    "unfinished": "{n} range{s} had not ended when the recording did: what came later is not in the trace",
    "overhead": "the profiler itself took {n} us in between (buffers, flushes): so much longer the program may seem",
    "names": "too many distinct names: {n} event{s} counted together under one",
    "signatures": "too many distinct signatures: the inputs of {n} op{s} left out",
}
IN_NANOSECONDS = "times are in nanoseconds, not microseconds"
_ONCE = {
    "in nanoseconds": IN_NANOSECONDS,
    "long ending": "what follows the events is too long to be read",
    "rank by name": "the rank is taken from the file's name: the file does not tell",
}


def format_remarks(
    counts: Counter[str], blocks: TextBlocks, splitter: EventSplitter, around: TraceMetadata
) -> tuple[str, ...]:
    """One sentence for everything that happened, the most important first."""
    sentences = []
    if blocks.damage:
        sentences.append(f"{blocks.damage}: only what comes before was read")
    if splitter.cut_at is not None:
        sentences.append(
            "truncated: the JSON ends before its list of events does; "
            f"whole events up to byte {splitter.cut_at} were read"
        )
    elif not around.complete:
        sentences.append("what the file states beside its events is damaged and was read only in part")
    if blocks.encoding:
        sentences.append(f"encoded as {blocks.encoding}")
    sentences += [
        text.format(n=counts[name], s="" if counts[name] == 1 else "s")
        for name, text in _REMARKS.items()
        if counts[name]
    ]
    sentences += [text for name, text in _ONCE.items() if counts[name]]
    return tuple(sentences)
