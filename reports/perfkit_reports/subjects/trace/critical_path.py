"""The replay of a trace: what its length is made of, and what the changes that were asked for would gain."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfkit import units
from perfkit.analysis.model.replay import PathRow, ReplaySummary, SimulatedChange
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import COMMUNICATION
from perfkit.analysis.model.trace import CollectiveRow, RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.cells import (
    make_code_cell,
    make_integer_cell,
    make_seconds_cell,
    make_share_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.document.blocks import Bar, Bars, Block, Details, Section, Text
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks

_PATH: tuple[Column[tuple[str, float, float]], ...] = (
    Column("Kind", lambda row: make_text_cell(row[0]), numeric=False),
    Column("On the critical path", lambda row: make_seconds_cell(row[1])),
    Column("Of the trace", lambda row: make_share_cell(row[1] / row[2]), meter=True),
)
_STRETCHES: tuple[Column[tuple[PathRow, float]], ...] = (
    Column("What", lambda told: _make_op_cell(told[0]), numeric=False, code=True, wrap=True),
    Column("Kind", lambda told: make_text_cell(told[0].kind), numeric=False),
    Column("On the path", lambda told: make_seconds_cell(told[0].seconds)),
    Column("Of the path", lambda told: make_share_cell(told[0].seconds / told[1]), meter=True),
    Column("Stretches", lambda told: make_integer_cell(told[0].stretches), help="times that the path leads through it"),
    Column("Longest", lambda told: make_seconds_cell(told[0].longest_s)),
    Column("Line", lambda told: make_short_cell(told[0].line, 48), numeric=False, wrap=True, help="of the function"),
    Column(
        "Module",
        lambda told: make_short_cell(told[0].module, 40),
        numeric=False,
        wrap=True,
        help="without the numbers of layers",
    ),
    Column(
        "At",
        lambda told: make_seconds_cell(told[0].longest_start_s),
        help="when the longest began, since the beginning of the path",
        weight=Weight.DETAIL,
    ),
)
_LEAST = 1e-4  # of the path, what is shown
_NO_STEPS = "the host marks no steps"
_NO_SUM = "what is changed is no duration of kernels"


def _make_op_cell(row: PathRow) -> Cell:
    """The op, and the call of the runtime that waited."""
    return make_code_cell(" in ".join(part for part in (row.call, row.op) if part), 48)


def _make_step_gain_cell(row: SimulatedChange) -> Cell:
    return (
        make_unknown_cell(row.refused or _NO_STEPS) if row.step_gain_s is None else make_seconds_cell(row.step_gain_s)
    )


_COLUMNS: tuple[Column[SimulatedChange], ...] = (
    Column("What if", lambda row: make_text_cell(row.what), numeric=False, code=True, wrap=True),
    Column(
        "Gain",
        lambda row: make_unknown_cell(row.refused) if row.gain_s is None else make_seconds_cell(row.gain_s),
        help="simulated, of the whole trace",
    ),
    Column("Per step", _make_step_gain_cell, help="simulated, of a step: the mean over all of them"),
    Column(
        "Of the trace", lambda row: make_unknown_cell(row.refused) if row.share is None else make_share_cell(row.share)
    ),
    Column(
        "Summed",
        lambda row: make_unknown_cell(_NO_SUM) if row.summed_s is None else make_seconds_cell(row.summed_s),
        help="what the kernels take less, added up: an upper bound",
    ),
)
# Whoever asks sees the answer first, on a terminal too.
_WHAT_IFS = tuple(replace(column, weight=Weight.BRIEF) for column in _COLUMNS)


def build_replay_section(analysis: TraceAnalysis) -> Section | None:
    """The critical path of each trace and its what-ifs; None where nothing was replayed."""
    blocks = build_trace_blocks("replay", list_detailed_traces(analysis), _build_replay)
    return Section("replay", "Critical path", blocks) if blocks else None


def _build_replay(trace: RankTrace, end: str) -> Sequence[Block]:
    if trace.replay is None or not trace.replay.replayed_s:
        return ()
    replay = trace.replay
    total = replay.replayed_s
    path = [(kind, spent, total) for kind, spent in _filter_visible(replay.critical_path, total).items()]
    bars = [
        _build_bar("as recorded", replay.critical_path),
        *(_build_bar(one.what, one.critical_path) for one in trace.what_ifs if not one.refused),
    ]
    rows = make_table(f"critical_path{end}", "Critical path", _PATH, path, "kind", show_title=False)
    return (
        *_build_refusal(replay, end),
        *make_table(f"what_ifs{end}", "What if", _WHAT_IFS, trace.what_ifs, "change", weight=Weight.BRIEF),
        Bars(
            id=f"critical-path-bars{end}",
            title="By kind of work",
            bars=tuple({bar.name: bar for bar in bars}.values()),
            label="Shares of the critical path by kind of work",
            whole="of the critical path",
            caption="What the trace's length is made of: from its end back along what each thing waited for last. "
            f"Replay error {replay.error * 100:+.2f} %.",
        ),
        *make_table(
            f"path_stretches{end}",
            "What the critical path leads through",
            _STRETCHES,
            [(row, replay.recorded_s) for row in replay.stretches],
            "place",
        ),
        *make_list(
            f"replay-assumes{end}",
            _list_assumptions(trace.collectives, replay),
            "What the replay assumes",
            style="list",
        ),
        Details(id=f"critical-path-table{end}", title="The critical path as a table", blocks=rows),
    )


def _build_bar(name: str, path: Mapping[str, float]) -> Bar:
    whole = sum(path.values())
    return Bar(
        f"{name}, {units.format_seconds(whole)}",
        tuple(
            TimeShare(category=kind, seconds=spent, share=spent / whole)
            for kind, spent in _filter_visible(path, whole).items()
        ),
    )


def _filter_visible(path: Mapping[str, float], whole: float) -> dict[str, float]:
    """Without what would not be seen."""
    return {kind: spent for kind, spent in path.items() if spent > 0 and spent >= _LEAST * whole}


def _build_refusal(replay: ReplaySummary, end: str) -> tuple[Text, ...]:
    """Why no gain is simulated; nothing where gains are."""
    if not replay.refused:
        return ()
    told = f"No gain is simulated: {replay.refused}. Sums of what kernels would take less are upper bounds only."
    return (Text(id=f"replay-refused{end}", lines=(told,), style="callout"),)


def _list_assumptions(collectives: Sequence[CollectiveRow], replay: ReplaySummary) -> list[str]:
    waits = (
        f"Gains are simulated with {replay.ranks} ranks at once: a collective ends when the last of these has come."
        if replay.ranks > 1
        else "A collective's time holds the lateness of the other ranks: without communication that goes, too."
    )
    return [
        *([waits] if collectives or COMMUNICATION in replay.critical_path else []),
        "Kernels keep their durations when others run beside them.",
        "A profiler slows the host: the trace may be more host-bound than the program without one.",
    ]
