"""Finds memory between steps that a variant has in addition to its baseline, and that no technique declares.

Copies of weights and hoarded gradients change no loss, and a claim on one category does not see them in another.
"""

from collections.abc import Iterator, Sequence

from perfkit.analysis.model.suite import KeptCopies
from perfkit.core.allocations import HOST, LIVE_CATEGORIES, OTHER
from perfkit.core.record.rank_record import RankRecord

# Less than a tenth of the parameters is no copy of them, and tensors of this size are everywhere.
_LEAST_SHARE = 0.1
_LEAST_BYTES = 64 * 1024


def find_kept_copies(variant: Sequence[RankRecord], baseline: Sequence[RankRecord]) -> tuple[KeptCopies, ...]:
    """Find the categories that grow beyond what the techniques declare, each on the rank where it grows most."""
    theirs = {record.rank: record for record in baseline}
    found: dict[str, KeptCopies] = {}
    for record in variant:
        for copies in _compare_ranks(record, theirs[record.rank]) if record.rank in theirs else ():
            if copies.category not in found or copies.kept_bytes > found[copies.category].kept_bytes:
                found[copies.category] = copies
    return tuple(found.values())


def _compare_ranks(variant: RankRecord, baseline: RankRecord) -> Iterator[KeptCopies]:
    ours, theirs = variant.facts, baseline.facts
    parameters = ours.get("reference_parameter_bytes")
    for category in LIVE_CATEGORIES if parameters else ():
        live, declared = f"live_bytes:{category}", f"declared_bytes:{category}"
        if not all(name in facts for name in (live, declared) for facts in (ours, theirs)):
            continue
        allowed = max(ours[declared] - theirs[declared], 0.0)
        kept = ours[live] - theirs[live] - allowed
        if parameters and kept > max(_LEAST_SHARE * parameters, _LEAST_BYTES):
            yield KeptCopies(
                category=category,
                kept_bytes=int(kept),
                declared_bytes=int(allowed),
                parameter_bytes=int(parameters),
                rank=variant.rank,
                dtypes=_list_dtypes(category, ours, theirs) if category in (OTHER, HOST) else (),
            )


def _list_dtypes(category: str, ours: dict[str, float], theirs: dict[str, float]) -> tuple[str, ...]:
    """The dtypes of the category's tensors that grew, the largest first, down to a tenth of it."""
    prefix = f"live_bytes:{category}:"
    grown = {name.removeprefix(prefix): ours[name] - theirs.get(name, 0.0) for name in ours if name.startswith(prefix)}
    largest = max(grown.values(), default=0.0)
    names = sorted(grown, key=lambda name: -grown[name])
    return tuple(name for name in names if grown[name] >= largest / 10 > 0)
