"""Rules about where a baseline's step goes: what would make it faster, and by how much at best."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from perfkit.analysis.finding_rules.context import Context, share, step_s, timed
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.trace.op_class import OpClass, op_class
from perfkit.analysis.trace.roofs import roofs_of
from perfkit.analysis.trace.timeline import COMMUNICATION, HOST
from perfkit.cost.call import Unit
from perfkit.units import flops_per_s, percent, seconds

# A part of the step below this is not worth a line.
_NOTABLE = 0.05

_MATRIX = (OpClass.MATMUL, OpClass.CONVOLUTION, OpClass.ATTENTION)
_POINTWISE = (OpClass.POINTWISE, OpClass.REDUCTION, OpClass.NORM, OpClass.COPY)
_SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::softmax*", "aten::masked_fill*")
_FUSED_OPTIMIZER = ("aten::_fused_*",)


def low_precision_peak(context: Context) -> Iterator[Finding]:
    """Matrix products in fp32 while the machine's bf16 peak is higher."""
    for variant in context.promising:
        roofs = roofs_of(context.ceilings, context.environment)
        fp32, bf16 = roofs.compute(Unit.MATRIX, "fp32"), roofs.compute(Unit.MATRIX, "bf16")
        products = _of_class(variant, _MATRIX)
        fraction = sum(row.share for row in products)
        if fp32 is None or bf16 is None or bf16.value < 1.3 * fp32.value or fraction < _NOTABLE:
            continue
        if not _computes_in(variant, "fp32"):
            continue
        factor = bf16.value / fp32.value
        gain = timed(variant, fraction * (1 - 1 / factor))
        yield Finding(
            severity="gain",
            title=f"Matrix products run in fp32; the bf16 peak is {factor:.1f} times higher",
            variant=variant.name,
            evidence=f"matrix products take {percent(fraction)} of the step; peaks {flops_per_s(fp32.value)} in fp32, "
            f"{flops_per_s(bf16.value)} in bf16; the gain is what reaching the same share of the bf16 peak would give",
            action=_try(context, "amp"),
            gain_s=gain,
        )


def attention_not_fused(context: Context) -> Iterator[Finding]:
    """Softmax as an op of its own means that attention writes its score matrix to memory."""
    for variant in context.promising:
        rows = _rows(variant, _SOFTMAX)
        fraction = sum(row.share for row in rows)
        if fraction >= _NOTABLE:
            yield Finding(
                severity="gain",
                title="Attention is not fused",
                variant=variant.name,
                evidence=f"softmax and masking of their own take {percent(fraction)} of the step ({_names(rows)})",
                action=_try(context, "flash"),
                gain_s=timed(variant, fraction),
            )


def optimizer_not_fused(context: Context) -> Iterator[Finding]:
    """An optimizer that updates in many ops reads and writes its state once for each of them."""
    for variant in context.promising:
        rows = [row for row in variant.ops if row.phase == "optimizer"]
        fraction = sum(row.share for row in rows)
        if fraction < _NOTABLE or _rows(variant, _FUSED_OPTIMIZER):
            continue
        calls = sum(row.calls for row in rows)
        yield Finding(
            severity="gain",
            title="The optimizer is not fused",
            variant=variant.name,
            evidence=f"its update takes {percent(fraction)} of the step in {calls:,.0f} op calls ({_names(rows)}), "
            "none of them fused; the gain is what these calls take beyond their roofs",
            action="Build the optimizer with fused=True where its class supports that on this device.",
            gain_s=_above_roof_s(variant, rows),
        )


def memory_bound_chain(context: Context) -> Iterator[Finding]:
    """Pointwise ops bound by memory, which a compiler fuses so that the data is read once."""
    for variant in context.promising:
        rows = [
            row
            for row in _of_class(variant, _POINTWISE)
            if row.bound == "memory" and row.phase in ("forward", "backward")
        ]
        fraction = sum(row.share for row in rows)
        if fraction >= _NOTABLE and sum(row.calls for row in rows) >= 2:
            yield Finding(
                severity="gain",
                title="Pointwise ops bound by memory could be fused",
                variant=variant.name,
                evidence=f"they take {percent(fraction)} of the step in {sum(row.calls for row in rows):,.0f} calls "
                f"({_names(rows)}); the gain is what they take beyond their roofs, fusing may win more",
                action=_try(context, "compile"),
                gain_s=_above_roof_s(variant, rows),
            )


def host_bound(context: Context) -> Iterator[Finding]:
    """Time in which no op ran: Python, dispatch and launch."""
    for variant in context.promising:
        part = share(variant, HOST)
        if part is None or part.share < 0.2:
            continue
        traced, clean = variant.traced_step_s, step_s(variant)
        slowed = (
            ""
            if traced is None or clean is None
            else f"; profiling itself made the step {traced / clean:.2f} times as long"
        )
        yield Finding(
            severity="gain",
            title=f"{percent(part.share, 0)} of the step is the host's",
            variant=variant.name,
            evidence=f"{seconds(part.seconds)} of a traced step of {seconds(traced or 0.0)} are Python, dispatch, "
            f"waiting, or ops too small to be bound by anything else{slowed}",
            action=f"Give each op more to do (a larger batch), or fewer ops. {_try(context, 'compile')}",
        )


def exposed_communication(context: Context) -> Iterator[Finding]:
    """Communication that nothing hides."""
    for variant in context.variants:
        part = None if variant.loop is not None else share(variant, COMMUNICATION)
        if part is not None and part.share >= _NOTABLE:
            yield Finding(
                severity="gain",
                title=f"{percent(part.share, 0)} of {variant.name}'s step is exposed communication",
                variant=variant.name,
                evidence=f"{seconds(part.seconds)} of a traced step went into exchanging data, beside no arithmetic",
                action="Accumulate more microbatches, use larger buckets, or a technique that moves fewer bytes.",
                gain_s=timed(variant, part.share),
            )


def _rows(variant: Variant, patterns: Sequence[str]) -> list[OpRow]:
    return [row for row in variant.ops if any(fnmatchcase(row.name, pattern) for pattern in patterns)]


def _of_class(variant: Variant, classes: Sequence[OpClass]) -> list[OpRow]:
    return [row for row in variant.ops if op_class(row.name) in classes]


def _above_roof_s(variant: Variant, rows: Sequence[OpRow]) -> float | None:
    """Seconds of the timed step that ops take beyond what their roofs allow; None where no roof is known."""
    known = [row for row in rows if row.attainable_s is not None and row.seconds > 0]
    wasted = sum(row.share * max(0.0, 1 - (row.attainable_s or 0.0) / row.seconds) for row in known)
    return timed(variant, wasted) if known else None


def _names(rows: Sequence[OpRow]) -> str:
    by_time = sorted(rows, key=lambda row: -row.share)
    return ", ".join(dict.fromkeys(row.name for row in by_time[:8]))


def _computes_in(variant: Variant, dtype: str) -> bool:
    """Most matrix FLOPs on the roofline are in `dtype`."""
    products = [each for each in variant.points if each.kind == "op" and each.unit == Unit.MATRIX]
    total = sum(each.flops for each in products)
    return total > 0 and sum(each.flops for each in products if each.dtype == dtype) > total / 2


def _try(context: Context, technique: str) -> str:
    """What to do: look at the variant in which the technique was tried, or try it."""
    tried = context.tried(technique)
    if tried is None:
        return f"Try --technique {technique}."
    if tried.difference is None or tried.engaged is not True:
        return f"Tried as {tried.name}, without a result that can be credited to it ({tried.reason or 'see its row'})."
    return f"Tried as {tried.name}: {tried.difference.verdict}, {tried.difference.ratio:.2f} times the step time."
