"""Describes where the ranks of a failed run were waiting."""

from collections.abc import Iterator

from perfkit.analysis.model.suite import Variant
from perfkit.core import units
from perfkit.core.record.run_result import RankWait


def describe_waits(variant: Variant) -> Iterator[str]:
    """One line per rank; nothing if no rank recorded its collectives."""
    waits_by_rank = {wait.rank: wait for wait in variant.rank_waits}
    for rank in range(variant.world_size if waits_by_rank else 0):
        yield (
            f"rank {rank} {_describe_wait(waits_by_rank[rank])}"
            if rank in waits_by_rank
            else f"rank {rank} recorded no collectives"
        )


def _describe_wait(wait: RankWait) -> str:
    """`waiting in all_reduce 12 of default_pg, [1024] fp32, 4.00 KiB, called at train.py:12 (loss)`."""
    collective = f"{wait.op} {wait.sequence} of {wait.group}"
    doing = f"last completed {collective}" if wait.finished else f"waiting in {collective}"
    size = "" if not wait.bytes else units.format_bytes(wait.bytes)
    site = f"called at {wait.call_site}" if wait.call_site else ""
    return ", ".join(part for part in (doing, wait.tensors, size, site) if part)
