"""What the replay of a trace says: what its length is made of, and what the changes that were asked for would gain."""

from collections.abc import Sequence
from dataclasses import replace

from perfkit.analysis.model.replay import Simulated
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.cells import seconds, share, text
from perfkit_reports.document.blocks import Block, Section
from perfkit_reports.document.cells import unknown
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import table
from perfkit_reports.subjects.trace.parts import by_trace
from perfkit_reports.subjects.trace.series import detailed

_PATH: tuple[Column[tuple[str, float, float]], ...] = (
    Column("Kind", lambda row: text(row[0]), numeric=False),
    Column("On the critical path", lambda row: seconds(row[1])),
    Column("Of the trace", lambda row: share(row[1] / row[2]), meter=True),
)
_NO_SUM = "what is changed is no duration of kernels"
_COLUMNS: tuple[Column[Simulated], ...] = (
    Column("What if", lambda row: text(row.what), numeric=False, code=True, wrap=True),
    Column(
        "Gain",
        lambda row: unknown(row.refused) if row.gain_s is None else seconds(row.gain_s),
        help="simulated, of the whole trace",
    ),
    Column("Of the trace", lambda row: unknown(row.refused) if row.share is None else share(row.share)),
    Column(
        "Summed",
        lambda row: unknown(_NO_SUM) if row.summed_s is None else seconds(row.summed_s),
        help="what the kernels take less, added up: an upper bound",
    ),
)
# Whoever asks sees the answer first, on a terminal too.
_WHAT_IFS = tuple(replace(column, weight=Weight.BRIEF) for column in _COLUMNS)


def replayed(analysis: TraceAnalysis) -> Section | None:
    """The critical path of each trace and its what-ifs; None where nothing was replayed."""
    blocks = by_trace("replay", detailed(analysis), _replayed)
    return Section("replay", "What it depends on", blocks) if blocks else None


def _replayed(trace: RankTrace, end: str) -> Sequence[Block]:
    if trace.replay is None or not trace.replay.replayed_s:
        return ()
    whole = trace.replay.replayed_s
    path = [(kind, spent, whole) for kind, spent in trace.replay.critical_path.items() if spent >= 1e-4 * whole]
    return (
        *table(f"what_ifs{end}", "What if", _WHAT_IFS, trace.what_ifs, "change", weight=Weight.BRIEF),
        *table(f"critical_path{end}", "Critical path", _PATH, path, "kind"),
    )
