"""Describes a memory account in sentences."""

from collections.abc import Sequence

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import Fragmentation, MemoryAccount, MemoryGrowth, format_request_origin
from perfkit.core import units
from perfkit_reports.holders import Holder
from perfkit_reports.subjects.memory.memory_fixes import choose_first_fix, describe_fix
from perfkit_reports.wording import format_plural, format_sentence

_NAMED = 3  # maximum number of categories in a headline
_WORTH = 0.005  # smaller shares round to 0 % and are not named


def build_headline(holders: Sequence[Holder], findings: Sequence[Finding] = ()) -> str:
    """`Peak 22.4 GiB in backward of step 3: 61 % activation; recompute blocks in backward to save up to 8.2 GiB.`

    Of the holder with the highest peak; without a fix, its three largest categories.
    """
    if not holders:
        return "The file contains no allocation events."
    highest = max(holders, key=lambda holder: holder.account.peak_bytes)
    account = highest.account
    where = f" on {highest.name}" if len(holders) > 1 else ""
    fix = choose_first_fix(findings, highest.name)
    split = _format_split(account, _NAMED if fix is None else 1) + ("" if fix is None else f"; {describe_fix(fix)}")
    if account.failed_request is not None:
        requested = account.failed_request.bytes
        request = "" if requested is None else f": {units.format_bytes(requested)} requested"
        return f"Out of memory{where}{request} with {units.format_bytes(account.peak_bytes)} alive at the peak{split}."
    return f"Peak {units.format_bytes(account.peak_bytes)}{format_moment(account)}{where}{split}."


def format_moment(account: MemoryAccount) -> str:
    """` in backward of step 3`; empty if neither is known."""
    phase = f" in {account.peak_phase}" if account.peak_phase else ""
    step = "" if account.peak_step is None else f"{' of' if phase else ' in'} step {account.peak_step}"
    return phase + step


def _format_split(account: MemoryAccount, most: int = _NAMED) -> str:
    largest = sorted(account.categories, key=lambda part: -part.bytes)[:most]
    parts = [
        f"{units.format_percent(part.bytes / account.peak_bytes, 0)} {part.category}"
        for part in largest
        if account.peak_bytes and part.bytes / account.peak_bytes >= _WORTH
    ]
    return f": {', '.join(parts)}" if parts else ""


def describe_failure(account: MemoryAccount) -> list[str]:
    """The failed request: size, place, live memory and shortage; empty without a failure."""
    request = account.failed_request
    if request is None:
        return []
    subject = (
        "Allocation of unknown size" if request.bytes is None else f"Allocation of {units.format_bytes(request.bytes)}"
    )
    where = format_request_origin(request)
    lines = [
        f"{subject} failed{f': {where}' if where else ''}.",
        f"Alive at the peak of {units.format_bytes(account.peak_bytes)}{_format_split(account)}.",
        _describe_missing(account),
        format_sentence(f"allocator message: {request.message}") if request.message else "",
    ]
    return [line for line in lines if line]


def _describe_missing(account: MemoryAccount) -> str:
    """Compare the request with the allocator's free reserved memory."""
    assert account.failed_request is not None
    requested, fragmentation = account.failed_request.bytes, account.fragmentation
    if requested is None or fragmentation is None:
        return ""
    free = units.format_bytes(fragmentation.free_bytes)
    if fragmentation.free_bytes < requested:
        lacking = units.format_bytes(requested - fragmentation.free_bytes)
        return f"{free} was reserved but free: at least {lacking} more was needed."
    if fragmentation.largest_free_bytes is None:
        return f"{free} was reserved but free; fragmentation unknown."
    largest = units.format_bytes(fragmentation.largest_free_bytes)
    if fragmentation.largest_free_bytes >= requested:
        return f"The allocator held a free block of {largest}, large enough for the request."
    return f"{free} was reserved but free, in blocks of at most {largest}: fragmentation, not lack of memory."


def describe_fragmentation(account: MemoryAccount) -> str:
    """`22.4 GiB of 24.0 GiB reserved is allocated ...`; empty without reserved memory."""
    fragmentation = account.fragmentation
    if fragmentation is None:
        return ""
    if not fragmentation.free_bytes:
        return f"All {units.format_bytes(fragmentation.reserved_bytes)} reserved is allocated at the peak."
    reserved, free = units.format_bytes(fragmentation.reserved_bytes), units.format_bytes(fragmentation.free_bytes)
    allocated = f"{units.format_bytes(fragmentation.allocated_bytes)} of {reserved} reserved is allocated"
    if fragmentation.largest_free_bytes is None:
        return f"{allocated} at the peak; fragmentation of the other {free} is unknown."
    largest = units.format_bytes(fragmentation.largest_free_bytes)
    return f"{allocated} at the peak; the largest free block is {largest} of {free} free."


def list_free_parts(fragmentation: Fragmentation) -> list[tuple[str, str, int]]:
    """(kind, name, bytes) of the parts of reserved memory, without empty ones."""
    largest = fragmentation.largest_free_bytes
    free = (
        [("pieces", "free", fragmentation.free_bytes)]
        if largest is None
        else [
            ("largest", "largest free block", largest),
            ("pieces", "other free blocks", fragmentation.free_bytes - largest),
        ]
    )
    return [part for part in (("allocated", "allocated", fragmentation.allocated_bytes), *free) if part[2] > 0]


def describe_growth(rows: Sequence[MemoryGrowth]) -> str:
    """`1.50 MiB per step from 2 origins, over 3 consecutive steps`; empty without growth."""
    if not rows:
        return ""
    total, steps = sum(row.bytes_per_step for row in rows), max(row.steps for row in rows)
    return (
        f"{units.format_bytes(total)} per step from {format_plural(len(rows), 'origin')}, over "
        f"{format_plural(steps, 'consecutive step')}."
    )


def describe_step_peaks(account: MemoryAccount) -> str:
    """Range of the steps' peaks; empty for fewer than two."""
    peaks = account.step_peaks
    if len(peaks) < 2:
        return ""
    low, high = units.format_bytes(min(peaks)), units.format_bytes(max(peaks))
    if low == high:
        return f"All {len(peaks)} steps peak at {high}."
    return f"Peaks range from {low} to {high} over {len(peaks)} steps; the first is {units.format_bytes(peaks[0])}."
