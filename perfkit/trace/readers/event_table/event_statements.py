"""Collectives and rare statements, of the arguments of events."""

from collections.abc import Iterable
from typing import Any

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, CollectiveRecord, EventStatement
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.tables import TraceTables

# A collective's id is a hash. So many bits of it tell apart those of a kind in a step.
_ID_BITS = 24


def make_collective(args: EventArgs) -> CollectiveRecord:
    """The collective that an event names."""

    def text(value: Any) -> str:
        return "" if value is None else escape_control_chars(str(value))

    return CollectiveRecord(
        text(args.collective),
        text(args.dtype),
        parse_numbers.parse_size(args.sent),
        parse_numbers.parse_size(args.received),
        text(args.group),
        text(args.group_text),
        parse_numbers.parse_size(args.group_size),
        parse_numbers.parse_list(args.group_ranks),
    )


def has_statement(args: EventArgs) -> bool:
    """True if arguments state what an `EventStatement` holds."""
    return (
        args.number != NONE or args.accessed != NONE or args.exchange_id != NONE or args.sent_splits not in (None, "[]")
    )


def make_statement(args: EventArgs) -> EventStatement:
    """The rare statements of an event."""
    flops, number = parse_numbers.parse_integer(args.model_flops), parse_numbers.parse_integer(args.number)
    if number == NONE and args.exchange_id != NONE:
        number = parse_numbers.parse_integer(args.exchange_id) & ((1 << _ID_BITS) - 1)
    return EventStatement(
        flops if flops != NONE else parse_numbers.parse_integer(args.flops),
        parse_numbers.parse_size(args.accessed),
        number,
        "",
        parse_numbers.parse_list(args.sent_splits),
        parse_numbers.parse_list(args.received_splits),
    )


def fill_statements(rows: Columns, args_by_row: Iterable[tuple[int, EventArgs]], tables: TraceTables) -> None:
    """Fill in the collectives and the rare statements of some rows."""
    for row, args in args_by_row:
        if args.collective:
            rows["collective"][row] = tables.collective[make_collective(args)]
        if has_statement(args):
            rows["stated"][row] = tables.stated[make_statement(args)]
