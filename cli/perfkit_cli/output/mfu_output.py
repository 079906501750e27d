"""Text of an audit of MFU: the conventions, their terms, the peaks, and what reproduces a printed figure."""

from collections.abc import Iterator, Sequence

from perfkit.core.record.quantity import Measurement
from perfkit.core.units import format_flop_rate, format_percent, format_significant
from perfkit.mfu.audit_model import ClaimMatch, MfuAudit, MfuClaim, MfuRow
from perfkit.mfu.conventions import Term
from perfkit.mfu.written_number import COUNT, PERCENT
from perfkit_cli.output.listing import align_columns

_MOST_MATCHES = 6  # of each kind
_NONE = "-"


def format_audit(audit: MfuAudit, *, markdown: bool, verbose: bool) -> Iterator[str]:
    """The lines of an audit; `verbose` adds who uses each convention, and all peaks."""
    yield from _describe_setting(audit)
    yield from _describe_count(audit, verbose)
    yield ""
    if any(not row.reason for row in audit.rows):
        yield from _format_table(_build_rows(audit, verbose), markdown)
    for reason in dict.fromkeys(row.reason for row in audit.rows if row.reason):
        names = "; ".join(row.name for row in audit.rows if row.reason == reason)
        yield f"unknown: {names}: {reason}"
    if audit.model is None:
        yield "formulas need --model, --seq and --tokens-per-step, of the GPUs above"
    terms = _collect_terms(audit.rows)
    if terms:
        yield ""
        yield from _format_table([("term", "value", "meaning"), *map(_format_term, terms)], markdown)
    if verbose and audit.peaks:
        yield ""
        yield from _format_table(_build_peaks(audit), markdown)
    if audit.claim is not None:
        yield ""
        yield from _format_claim(audit.claim, markdown)


def _describe_setting(audit: MfuAudit) -> Iterator[str]:
    if audit.source:
        yield audit.source
    if audit.model is not None:
        shape = audit.model
        active = f" ({_format_count(shape.active_params)} active)" if shape.inactive_params else ""
        length = f", sequences of {audit.seq_len:,} tokens" if audit.seq_len is not None else ""
        yield f"{shape.name}: {_format_count(shape.params)} parameters{active}{length}"
        if shape.kv_heads is not None and shape.heads is not None and shape.kv_heads < shape.heads:
            yield (
                f"{shape.heads} query heads share {shape.kv_heads} of keys and values: fewer parameters, as many pairs"
            )
    speed = "" if audit.tokens_per_s is None else f"{format_significant(audit.tokens_per_s, 4)} tokens/s on "
    if audit.peak is not None:
        sparse = f", {format_flop_rate(audit.peak.sparse)} with 2:4 sparsity" if audit.peak.sparse is not None else ""
        rate = format_flop_rate(audit.peak.dense)
        yield f"{speed}{audit.gpus:,} x {audit.gpu}: peak {rate} dense{sparse} ({audit.dtype})"
    elif audit.gpu:
        yield f"{speed}{audit.gpus:,} x {audit.gpu}: its peak is unknown; give --peak or --gpu"
    elif speed:
        yield f"{speed}{audit.gpus:,} GPUs: no peak; give --gpu or --peak"


def _describe_count(audit: MfuAudit, verbose: bool) -> Iterator[str]:
    """What perfkit reports of a run or trace, over the peak of what it computed in."""
    for name, quantity in (("MFU", audit.counted_mfu), ("HFU", audit.counted_hfu)):
        if isinstance(quantity, Measurement):
            source = f" ({quantity.source})" if verbose else ""
            yield f"{name} in perfkit's report: {format_percent(quantity.value)}{source}"
        elif quantity is not None:
            yield f"{name} in perfkit's report: unknown, {quantity.reason}"
    if audit.step_s is not None and not audit.trains:
        yield "no backward pass was seen: the formulas are of forward and backward, three times the FLOPs of forward"


def _build_rows(audit: MfuAudit, verbose: bool) -> list[tuple[str, ...]]:
    """The table of conventions, with the columns that are known of any."""
    known = [row for row in audit.rows if not row.reason]
    columns = [("convention", [row.name for row in known])]
    if any(row.mfu is not None for row in known):
        columns.append(("MFU", [_NONE if row.mfu is None else format_percent(row.mfu) for row in known]))
    if any(row.mfu_sparse is not None for row in known):
        shares = [_NONE if row.mfu_sparse is None else format_percent(row.mfu_sparse) for row in known]
        columns.append(("sparse", shares))
    if any(row.flops_per_s is not None for row in known):
        columns.append(("TFLOP/s", [_scale(row.flops_per_s, 1e12) for row in known]))
    columns.append(("GFLOP/token", [_scale(row.flops_per_token, 1e9) for row in known]))
    columns.append(("formula", [row.formula or "op by op" for row in known]))
    if verbose:
        columns.append(("used by", [row.users for row in known]))
    header = tuple(name for name, _ in columns)
    return [header, *zip(*(cells for _, cells in columns), strict=True)]


def _scale(value: float | None, unit: float) -> str:
    return _NONE if value is None else format_significant(value / unit, 4)


def _collect_terms(rows: Sequence[MfuRow]) -> list[Term]:
    """The terms of all formulas, each once: sizes, then FLOPs."""
    terms = {term.symbol: term for row in rows for term in row.terms}.values()
    return sorted(terms, key=lambda term: not term.meaning)


def _format_term(term: Term) -> tuple[str, str, str]:
    if term.meaning:
        return term.symbol, f"{term.value:,.0f}", term.meaning
    return term.symbol, f"{format_significant(term.value / 1e9, 4)} GFLOP", ""


def _build_peaks(audit: MfuAudit) -> list[tuple[str, ...]]:
    rows = [("dtype", "dense", "sparse", "source")]
    for peak in audit.peaks:
        sparse = _NONE if peak.sparse is None else format_flop_rate(peak.sparse)
        rows.append((peak.dtype, format_flop_rate(peak.dense), sparse, peak.source))
    return rows  # type: ignore[return-value]


def _format_claim(claim: MfuClaim, markdown: bool) -> Iterator[str]:
    printed = _format_figure(claim.value, claim.unit)
    right = [match for match in claim.matches if match.mistake is None]
    wrong = [match for match in claim.matches if match.mistake is not None]
    if not claim.matches:
        yield f"Claimed {printed}: no formula gives it, nor one with a known mistake. Nearest:"
        yield from _format_table(_build_matches(claim, claim.nearest, with_difference=True), markdown)
    if right:
        yield f"Claimed {printed}: given by"
        yield from _format_table(_build_matches(claim, right[:_MOST_MATCHES]), markdown)
    if wrong:
        yield f"Claimed {printed}: given {'also ' if right else ''}by a mistake"
        yield from _format_table(_build_matches(claim, wrong[:_MOST_MATCHES]), markdown)
    left = len(right[_MOST_MATCHES:]) + len(wrong[_MOST_MATCHES:])
    more = f"; {left} more in --json" if left else ""
    yield (
        f"Within {format_percent(claim.tolerance, 2)}, the last digits given; {claim.tried:,} ways tried, of which "
        f"{format_significant(claim.by_chance, 2)} agree by chance{more}"
    )


def _build_matches(
    claim: MfuClaim, matches: Sequence[ClaimMatch], with_difference: bool = False
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    has_mistakes = any(match.mistake is not None for match in matches)
    for match in matches:
        row = [match.name or _NONE, match.formula, _format_figure(match.value, claim.unit)]
        if with_difference:
            row.append(f"{match.difference:+.1%}")
        if has_mistakes:
            row += [
                _NONE if match.mistake is None else match.mistake.text,
                _format_figure(match.corrected, claim.unit),
            ]
        rows.append(tuple(row))
    header = ["convention", "formula", "value", *(["off by"] if with_difference else [])]
    return [(*header, *(["mistake", "without it"] if has_mistakes else [])), *rows]


def _format_figure(value: float, unit: str) -> str:
    if unit == PERCENT:
        return format_percent(value, 2)
    if unit == COUNT:
        return f"{format_significant(value / 1e9, 4)} GFLOP/token"
    return f"{format_significant(value / 1e12, 4)} TFLOP/s"


def _format_count(value: float) -> str:
    return f"{format_significant(value / 1e9, 4)}B" if value >= 1e9 else f"{format_significant(value / 1e6, 4)}M"


def _format_table(rows: Sequence[tuple[str, ...]], markdown: bool) -> Iterator[str]:
    if not markdown:
        yield from align_columns(rows)
        return
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield f"|{'---|' * len(row)}"
