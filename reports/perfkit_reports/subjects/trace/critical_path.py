"""Reports on the replay of a trace: its critical path, and the gains of requested changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfkit.analysis.model.replay import PathRow, ReplaySummary, SimulatedChange
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.time_split import COMMUNICATION
from perfkit.analysis.model.trace import CollectiveRow, RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core import units
from perfkit_reports.cells import (
    make_code_cell,
    make_integer_cell,
    make_seconds_cell,
    make_share_cell,
    make_short_cell,
    make_text_cell,
)
from perfkit_reports.document.blocks import Bar, Bars, Block, Section, Text
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.subjects.trace.trace_blocks import build_trace_blocks

_SEGMENTS: tuple[Column[tuple[PathRow, float]], ...] = (
    Column("Operation", lambda entry: _make_op_cell(entry[0]), numeric=False, code=True, wrap=True),
    Column("Type", lambda entry: make_text_cell(entry[0].kind), numeric=False),
    Column("Path time", lambda entry: make_seconds_cell(entry[0].seconds)),
    Column("% of path", lambda entry: make_share_cell(entry[0].seconds / entry[1]), meter=True),
    Column("Segments", lambda entry: make_integer_cell(entry[0].segments), help="number of path segments"),
    Column("Longest", lambda entry: make_seconds_cell(entry[0].longest_s)),
    Column(
        "Line",
        lambda entry: make_short_cell(entry[0].line, 48),
        numeric=False,
        wrap=True,
        help="innermost line of the program",
    ),
    Column(
        "Module",
        lambda entry: make_short_cell(entry[0].module, 40),
        numeric=False,
        wrap=True,
        help="layer numbers removed",
    ),
    Column(
        "Starts at",
        lambda entry: make_seconds_cell(entry[0].longest_start_s),
        help="start of the longest segment, from the start of the path",
        weight=Weight.DETAIL,
    ),
)
_LEAST = 1e-4  # of the path, the least share shown
_NO_STEPS = "no steps marked on the CPU"
_NO_SUM = "not a change of kernel durations"


def _make_op_cell(row: PathRow) -> Cell:
    """The op, and the call of the runtime that waited."""
    return make_code_cell(" in ".join(part for part in (row.call, row.op) if part), 48)


def _make_step_gain_cell(row: SimulatedChange) -> Cell:
    return make_unknown_cell(row.reason or _NO_STEPS) if row.step_gain_s is None else make_seconds_cell(row.step_gain_s)


_COLUMNS: tuple[Column[SimulatedChange], ...] = (
    Column("What if", lambda row: make_text_cell(row.change), numeric=False, code=True, wrap=True),
    Column(
        "Gain",
        lambda row: make_unknown_cell(row.reason) if row.gain_s is None else make_seconds_cell(row.gain_s),
        help="simulated, for the whole trace",
    ),
    Column("Per step", _make_step_gain_cell, help="simulated, mean over all steps"),
    Column(
        "% of trace", lambda row: make_unknown_cell(row.reason) if row.share is None else make_share_cell(row.share)
    ),
    Column(
        "Upper bound",
        lambda row: make_unknown_cell(_NO_SUM) if row.summed_s is None else make_seconds_cell(row.summed_s),
        help="summed reduction of kernel time",
    ),
)
# Whoever asks sees the answer first, on a terminal too.
_WHAT_IFS = tuple(replace(column, weight=Weight.BRIEF) for column in _COLUMNS)


def build_replay_section(analysis: TraceAnalysis) -> Section | None:
    """Build the critical path of each trace and its what-ifs; None without a replay."""
    blocks = build_trace_blocks("replay", list_detailed_traces(analysis), _build_replay)
    return Section("replay", "Critical path", blocks) if blocks else None


def _build_replay(trace: RankTrace, end: str) -> Sequence[Block]:
    if trace.replay is None or not trace.replay.replayed_s:
        return ()
    replay = trace.replay
    bars = [
        _build_bar("as recorded", replay.critical_path),
        *(_build_bar(one.change, one.critical_path) for one in trace.what_ifs if not one.reason),
    ]
    return (
        *_build_refusal(replay, end),
        *make_table(f"what_ifs{end}", "What if", _WHAT_IFS, trace.what_ifs, "change", weight=Weight.BRIEF, whole=True),
        Bars(
            id=f"critical-path-bars{end}",
            title="Critical path by type",
            bars=tuple({bar.name: bar for bar in bars}.values()),
            label="Critical path by type",
            whole="of the critical path",
            caption="Traced back from the end of the trace, from each operation to the one it waited for last. "
            f"Replay error: {units.format_signed_percent(replay.error, 2)}.",
        ),
        *make_table(
            f"path_segments{end}",
            "Operations on the critical path",
            _SEGMENTS,
            [(row, replay.recorded_s) for row in replay.segments],
            "operation",
        ),
        *make_list(
            f"replay-assumes{end}",
            _list_assumptions(trace.collectives, replay),
            "Replay assumptions",
            style="list",
        ),
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
    """The parts large enough to be visible."""
    return {kind: spent for kind, spent in path.items() if spent > 0 and spent >= _LEAST * whole}


def _build_refusal(replay: ReplaySummary, end: str) -> tuple[Text, ...]:
    """The reason that no gain is simulated; nothing where gains are."""
    if not replay.reason:
        return ()
    text = f"Gains are not simulated: {replay.reason}. Summed gains are upper bounds."
    return (Text(id=f"replay-refused{end}", lines=(text,), style="callout"),)


def _list_assumptions(collectives: Sequence[CollectiveRow], replay: ReplaySummary) -> list[str]:
    waits = (
        f"Gains are simulated with {replay.ranks} ranks together: a collective ends once its last rank has arrived."
        if replay.ranks > 1
        else "Collective time includes waiting for late ranks; removing communication removes that wait, too."
    )
    return [
        *([waits] if collectives or COMMUNICATION in replay.critical_path else []),
        "Kernels keep their durations when they overlap with others.",
        "The profiler slows the CPU: the trace may be more CPU-bound than the program.",
    ]
