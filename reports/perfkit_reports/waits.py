"""Where the ranks of a run that failed were, in words."""

from collections.abc import Iterator

from perfkit import units
from perfkit.analysis.model.suite import Variant
from perfkit.record import RankWait


def describe_waits(variant: Variant) -> Iterator[str]:
    """A line a rank, of those that left none as well; none where no rank could tell."""
    told = {wait.rank: wait for wait in variant.waits}
    for rank in range(variant.world_size if told else 0):
        yield (
            f"rank {rank} {_describe_wait(told[rank])}"
            if rank in told
            else f"rank {rank} left no record of its collectives"
        )


def _describe_wait(wait: RankWait) -> str:
    """`waits in all_reduce 12 of default_pg, [1024] fp32, 4.00 KiB, called at train.py:12 (loss)`."""
    collective = f"{wait.op} {wait.sequence} of {wait.group}"
    doing = f"last entered {collective}, which has ended" if wait.finished else f"waits in {collective}"
    size = "" if not wait.bytes else units.format_bytes(wait.bytes)
    site = f"called at {wait.call_site}" if wait.call_site else ""
    return ", ".join(part for part in (doing, wait.tensors, size, site) if part)
