"""Volumes that ranks exchange in a step: as asked for and counted, in theory, and as the traced steps show it."""

from collections.abc import Sequence

from perfkit.analysis.model.fleet import CollectiveVolume
from perfkit.analysis.model.trace import CollectiveRow, RankTrace
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.cost.calls.collective import CollectiveType, classify_collective


def compute_volumes(runs: VariantRuns, trace: RankTrace | None) -> tuple[CollectiveVolume, ...]:
    """A row for each kind of collective that the first rank asked for, or that its trace shows."""
    facts = runs.records[0].facts if runs.records else {}
    rows: dict[str, list[CollectiveRow]] = {}
    for row in trace.collectives if trace is not None and trace.steps else ():
        if row.calls:
            rows.setdefault(_get_asked_kind(row), []).append(row)
    volumes = []
    for kind in CollectiveType:
        asked, least = (facts.get(f"collective_{what}:{kind}") for what in ("bytes", "volume"))
        if asked or kind in rows:
            volumes.append(_build_volume(kind, asked, least, rows.get(kind, [])))
    return tuple(volumes)


def _get_asked_kind(row: CollectiveRow) -> str:
    """The kind of collective that the program called; the backend may have run another."""
    called = (
        {classify_collective(name.rpartition("::")[2]) for name in row.requested_kind.split(", ")}
        if row.requested_kind
        else set()
    )
    return str(called.pop()) if len(called) == 1 else row.kind


def _build_volume(
    kind: CollectiveType, asked: float | None, least: float | None, rows: Sequence[CollectiveRow]
) -> CollectiveVolume:
    carried = [row.volume_bytes for row in rows]
    wall_s, exposed_s = sum(row.wall_s for row in rows), sum(row.exposed_s for row in rows)
    return CollectiveVolume(
        kind=str(kind),
        calls=sum(row.calls for row in rows),
        message_bytes=asked,
        theoretical_bytes=least,
        traced_bytes=None if not rows or None in carried else sum(amount for amount in carried if amount is not None),
        backend_kind=", ".join(sorted({row.kind for row in rows if row.kind != kind})),
        seconds=sum(row.seconds for row in rows),
        exposed_s=exposed_s,
        hidden_share=1 - exposed_s / wall_s if wall_s > 0 else None,
    )
