"""`perfkit plan --max batch_size`: finds the largest batch of each variant that fits."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console

from perfkit.analysis.model.plan import LargestSize, PlannedSize
from perfkit.core.errors import UsageError
from perfkit.core.spec import format_variant_label
from perfkit.core.units import format_bytes, format_percent
from perfkit.devices.accelerator import is_cpu
from perfkit.measure.redundant_size import read_batch_size
from perfkit.plan.search.largest_batch import plan_largest_batch
from perfkit.plan.target.target import Target
from perfkit.store.request import BenchRequest
from perfkit_cli.output.listing import align_columns

_FITS = {True: "fits", False: "does not fit", None: "unknown"}


def find_largest_batches(
    request: BenchRequest, target: Target, *, margin: float, most: int, console: Console
) -> list[LargestSize]:
    """Find the largest batch of the baseline and of every variant; the console shows each size as it is planned."""
    if target.limit_bytes is None:
        raise UsageError(
            "--max batch_size needs a memory limit; give one, such as --memory 6GiB or --gpu h100-80g",
            id="usage.missing_option",
        )
    first = read_batch_size(request.workload, target.kind) or 1
    variants = {format_variant_label(techniques): techniques for techniques in ((), *request.variants)}
    batches = []
    with console.status("planning") as status:
        for place, (name, techniques) in enumerate(variants.items(), start=1):
            of = f"{name}, {place} of {len(variants)}"

            def report(planned: PlannedSize, of: str = of) -> None:
                status.update(f"{of}: batch {planned.size} {_FITS[planned.fits]}")

            batches.append(
                plan_largest_batch(request, techniques, target, margin=margin, first=first, most=most, progress=report)
            )
    return batches


def format_largest(batches: Sequence[LargestSize], target: Target) -> Iterator[str]:
    """Format a line per variant below the request."""
    limit, margin = batches[0].limit_bytes, batches[0].margin
    alone = "; torch's allocator only, a process needs more" if is_cpu(target.kind) else ""
    yield f"limit {format_bytes(limit)}, {format_percent(margin, 0)} kept free{alone}:"
    yield from align_columns([("variant", "largest batch", "needs", "sizes planned"), *map(_build_row, batches)])


def to_builtins(batches: Sequence[LargestSize]) -> dict[str, Any]:
    """For --json."""
    return {"largest": msgspec.to_builtins(batches)}


def _build_row(batch: LargestSize) -> tuple[str, str, str, str]:
    last = batch.sizes[-1]
    count = str(len(batch.sizes))
    if batch.size is None:
        why = last.reason or f"batch {last.size} needs {_format_needed(last)}"
        return batch.variant, "none", why, count
    needed = next(_format_needed(trial) for trial in batch.sizes if trial.size == batch.size)
    most = f"{batch.size}, the largest one planned" if batch.size == batch.most else str(batch.size)
    return batch.variant, most, needed, f"{count}{f'; {last.reason}' if last.reason else ''}"


def _format_needed(planned: PlannedSize) -> str:
    return "" if planned.needed_bytes is None else format_bytes(planned.needed_bytes.high)
