"""Techniques with lower precision: time of products, and of other ops by traffic."""

from collections.abc import Sequence

from perfkit.analysis.findings.change import Change, Takes, join_changes, scale_rows
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.trace_thresholds import HIGHER_PEAK
from perfkit.analysis.trace.roofline.roofline import LATENCY
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.plan.advise.answers import AddressedWork, AdvisedView, Answer, format_taken_time
from perfkit.plan.target.work import Work
from perfkit.techniques.base.planning import NoEffect, UnknownEffect
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.precision.amp import Amp
from perfkit.techniques.precision.bf16 import Bf16

PRODUCTS = (OpClass.MATMUL, OpClass.CONVOLUTION, OpClass.ATTENTION)
_WIDE = ("fp32", "tf32")
_ITEM_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}  # in memory: TF32 rounds fp32 as it is read
_OPTIMIZER = "optimizer"

_SAME_SHARE = "matrix products reach the same share of the higher peak, limited by memory bandwidth"
_AS_MEASURED = "matrix products reach the efficiency measured for such work"


def _describe_assumption(view: AdvisedView) -> str:
    return _SAME_SHARE if view.efficiencies is None else f"{_AS_MEASURED} ({view.efficiencies.source})"


def estimate_amp(view: AdvisedView, technique: Technique) -> Answer:
    """Autocast: fp32 products in 16 bits; elementwise ops between them move at least half the bytes."""
    assert isinstance(technique, Amp)
    product_rows = _scale_products(view, technique.dtype)
    if not isinstance(product_rows, Change):
        return product_rows
    products = _find_wide_rows(view)
    between = [row for row in _find_other_rows(view) if classify_op(row.name) == OpClass.POINTWISE]
    # Operands are read in fp32 and written in 16 bits: all of them at the most, where nothing before left them so.
    moved = sum(row.bytes or 0.0 for row in products) * 1.5
    casts = 0.0 if view.bandwidth is None else moved / view.bandwidth
    return AddressedWork(
        f"fp32 matrix products take {format_taken_time(view, products)}",
        (
            f"{_describe_assumption(view)}; elementwise ops take 50 to 100 % of their time, casts up to one extra pass "
            "over the operands"
        ),
        most=join_changes((product_rows, scale_rows(between, 0.5))),
        least=product_rows,
        costs_s=(0.0, casts),
    )


def estimate_bf16(view: AdvisedView, technique: Technique) -> Answer:
    """Parameters, activations and state in bf16: ops move half the bytes, products run in 16 bits."""
    assert isinstance(technique, Bf16)
    if technique.update == "stochastic":
        return UnknownEffect("time of the random numbers for its rounding")
    product_rows = _scale_products(view, "bf16")
    if not isinstance(product_rows, Change):
        return product_rows
    others = [row for row in _find_other_rows(view) if row.dtype in (*_WIDE, "")]
    update = [row for row in view.select_ops() if row.phase == _OPTIMIZER]
    if technique.update == "kahan":
        update = []  # its fifth tensor a parameter takes as many bytes as the other four save in part
    return AddressedWork(
        (
            f"fp32 matrix products take {format_taken_time(view, _find_wide_rows(view))}, other ops "
            f"{format_taken_time(view, others + update)}"
        ),
        f"{_describe_assumption(view)}; other ops take 50 to 100 % of their time",
        most=join_changes((product_rows, scale_rows([*others, *update], 0.5))),
        least=product_rows,
    )


def estimate_tf32(view: AdvisedView, _technique: Technique) -> Answer:
    """fp32 products on matrix units, which round their operands."""
    product_rows = _scale_products(view, "tf32")
    if not isinstance(product_rows, Change):
        return product_rows
    return AddressedWork(
        f"fp32 matrix products take {format_taken_time(view, _find_wide_rows(view))}",
        _describe_assumption(view),
        most=product_rows,
    )


def estimate_fp8(view: AdvisedView, _technique: Technique) -> Answer:
    """Products of linear layers in fp8."""
    products = [
        row
        for row in _find_product_rows(view, ("fp32", "tf32", "bf16", "fp16"))
        if classify_op(row.name) == OpClass.MATMUL
    ]
    product_rows = _scale_to_dtype(view, products, "fp8")
    if not isinstance(product_rows, Change):
        return product_rows
    return AddressedWork(
        f"GEMMs take {format_taken_time(view, products)}",
        f"{_describe_assumption(view)}; scaling is free",
        most=product_rows,
    )


def _scale_products(view: AdvisedView, dtype: str) -> Change | UnknownEffect | NoEffect:
    return _scale_to_dtype(view, _find_wide_rows(view), dtype)


def _scale_to_dtype(view: AdvisedView, rows: Sequence[OpRow], dtype: str) -> Change | UnknownEffect | NoEffect:
    """Time of the same products in another dtype, by the ratio of the peaks."""
    if not rows:
        return NoEffect(f"no matrix products wider than {dtype} are large enough to gain")
    peak = view.get_peak(CeilingLevel.MATRIX, dtype)
    known = [(row, now) for row in rows if (now := _get_peak(view, row.dtype)) is not None]
    if peak is None or not known:
        return UnknownEffect(f"the device's peak in {dtype if peak is None else rows[0].dtype}")
    if all(peak < HIGHER_PEAK * now for _, now in known):
        return NoEffect(f"the device's {dtype} peak is no higher than its {rows[0].dtype} peak")
    return Change(tuple(Takes(row, _compute_time_part(view, row, dtype, now / peak)) for row, now in known))


def _get_peak(view: AdvisedView, dtype: str) -> float | None:
    """A CPU multiplies fp32 at its matrix rate, a GPU on its vector units where the matrix units do not take it."""
    peak = view.get_peak(CeilingLevel.MATRIX, dtype)
    return peak if peak is not None or is_cpu(view.trace.device) else view.get_peak(CeilingLevel.VECTOR, dtype)


def _compute_time_part(view: AdvisedView, row: OpRow, dtype: str, ratio: float) -> float:
    """The part of its time that a product takes in another dtype: as efficient work of its class and size in both is
    where that was measured, else the ratio of the peaks; its operands have to be moved still.
    """
    if row.seconds <= 0:
        return 1.0
    moved = None if row.bytes is None else row.bytes * _compute_operand_ratio(row.dtype, dtype)
    by_memory = 0.0 if moved is None or view.bandwidth is None else moved / view.bandwidth
    return min(1.0, max(_predict_ratio(view, row, dtype) or ratio, by_memory / row.seconds))


def _predict_ratio(view: AdvisedView, row: OpRow, dtype: str) -> float | None:
    """Time ratio of a row's call in another dtype; None if not measured."""
    if view.efficiencies is None or row.flops is None or row.bytes is None:
        return None
    now = Work(classify_op(row.name), row.dtype, row.flops / row.calls, row.bytes / row.calls, matrix=True, op=row.name)
    then = now._replace(dtype=dtype, bytes=now.bytes * _compute_operand_ratio(row.dtype, dtype))
    before, after = map(view.efficiencies.seconds, (now, then))
    return None if before is None or after is None or not before.value else after.value / before.value


def _compute_operand_ratio(before: str, after: str) -> float:
    """The bytes of operands in one dtype over those in another."""
    return _ITEM_BYTES[after] / _ITEM_BYTES[before]


def _find_wide_rows(view: AdvisedView) -> list[OpRow]:
    return _find_product_rows(view, _WIDE)


def _find_product_rows(view: AdvisedView, dtypes: Sequence[str]) -> list[OpRow]:
    """Products in some dtypes; a call that is too small for its arithmetic to matter takes as long in any."""
    return [row for row in view.select_ops(*PRODUCTS) if row.dtype in dtypes and row.bound != LATENCY]


def _find_other_rows(view: AdvisedView) -> list[OpRow]:
    """Other ops of forward and backward that are bound by memory."""
    return [
        row
        for row in view.select_ops()
        if classify_op(row.name) not in PRODUCTS and row.phase != _OPTIMIZER and row.bound != LATENCY
    ]
