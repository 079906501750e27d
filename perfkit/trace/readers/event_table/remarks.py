"""Describes repairs, omissions and assumptions of reading a trace."""

from collections import Counter

from perfkit.core.note import Note, make_note
from perfkit.core.text_blocks import TextBlocks
from perfkit.core.units import format_seconds

# {s} is the plural's s.
_REMARKS = {
    "broken event": ("reading.broken_events", "{n} broken event{s} skipped"),
    "impossible time": ("reading.impossible_times", "{n} event{s} without a possible time skipped"),
    "no phase": ("reading.no_phase", "{n} event{s} without a phase skipped"),
    "unpaired": ("reading.unpaired", "{n} begin or end event{s} without a counterpart skipped"),
    "negative duration": ("reading.negative_durations", "{n} negative duration{s} not used"),
    "no duration": ("reading.no_durations", "{n} missing duration{s} not used"),
    "impossible duration": ("reading.impossible_durations", "{n} impossible duration{s} not used"),
    "untimed": ("reading.untimed", "{n} device record{s} without a time skipped"),
    "wrong type": ("reading.wrong_types", "{n} event{s} with members of unexpected types, read in part"),
    "invalid UTF-8": ("reading.invalid_utf8", "{n} character{s} of invalid UTF-8 replaced"),
    "control character": ("reading.control_characters", "{n} raw control character{s} in names replaced by blanks"),
    "NaN or infinity": ("reading.not_finite", "{n} NaN or infinite number{s} read as missing"),
    "trailing comma": ("reading.trailing_commas", "trailing commas removed from {n} event{s}"),
    "half-quoted name": ("reading.unquoted_names", "missing quotes of member names restored in {n} event{s}"),
    "unescaped quote": ("reading.unescaped_quotes", "unescaped quotes repaired in {n} event{s}"),
    "graphs": (
        "reading.graphs_without_nodes",
        "{n} replay{s} of CUDA graphs recorded without their kernels: record with --cuda-graph-trace=node",
    ),
    "unfinished": (
        "reading.unfinished",
        "{n} range{s} still open when the recording ended: later work is not in the trace",
    ),
    "overhead": (
        "reading.profiler_overhead",
        "profiler overhead of {time} inside the trace (buffers, flushes): times may be inflated by as much",
    ),
    "names": ("reading.names", "too many distinct names: {n} event{s} grouped under one"),
    "signatures": ("reading.signatures", "too many distinct signatures: inputs of {n} op{s} dropped"),
}
IN_NANOSECONDS = "reading.nanoseconds"
_ONCE = {
    "in nanoseconds": (IN_NANOSECONDS, "times are in nanoseconds, not microseconds"),
    "long ending": ("reading.long_ending", "text after the events is too long and was not read"),
    "rank by name": ("reading.rank_from_name", "rank taken from the file name; not recorded in the file"),
}
# The end of the file is missing.
CUT_OFF = ("reading.truncated", "reading.damaged")


def list_remarks(counts: Counter[str], blocks: TextBlocks, cut_at: int | None, complete: bool) -> tuple[Note, ...]:
    """One note for each kind of repair, the most important first.

    `cut_at` is the byte in which a file ends too early, `complete` whether its metadata could be read.
    """
    notes = []
    if blocks.damage:
        id = "reading.time_limit" if blocks.ended else "reading.damaged"
        notes.append(make_note(id, f"{blocks.damage}: the rest was not read"))
    if cut_at is not None:
        notes.append(
            make_note(
                "reading.truncated",
                f"truncated: the file ends inside its events; those up to byte {cut_at} were read",
                byte=cut_at,
            )
        )
    elif not complete:
        notes.append(make_note("reading.metadata", "the file's metadata is damaged and was partly read"))
    if blocks.encoding:
        notes.append(make_note("reading.encoding", f"encoded as {blocks.encoding}", encoding=blocks.encoding))
    notes += [
        make_note(id, _fill(text, counts[name]), count=int(counts[name]))
        for name, (id, text) in _REMARKS.items()
        if counts[name]
    ]
    notes += [make_note(id, text) for name, (id, text) in _ONCE.items() if counts[name]]
    return tuple(notes)


def _fill(text: str, count: int) -> str:
    """The text with its count, its plural, and its time if it counts microseconds."""
    return text.format(n=count, s="" if count == 1 else "s", time=format_seconds(count / 1e6))
