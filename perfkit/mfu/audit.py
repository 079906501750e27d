"""Audits MFU: what a speed is under every convention, and what reproduces a printed figure."""

from typing import NamedTuple

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.devices.catalog.catalog import CatalogEntry, find_entry
from perfkit.mfu.audit_model import MfuAudit, MfuRow
from perfkit.mfu.conventions import ALL_EXPERTS, CONVENTIONS, Convention, FlopsPerToken, ParamSet, count_flops
from perfkit.mfu.explain_claim import explain_claim
from perfkit.mfu.measured_step import MeasuredStep, measure_step
from perfkit.mfu.mistakes import Setting
from perfkit.mfu.model_shape import ModelShape
from perfkit.mfu.peak_rates import MfuPeak, list_peaks, select_peak
from perfkit.mfu.resolve_model import is_model, make_typed_shape, resolve_model, shape_workload
from perfkit.mfu.written_number import WrittenNumber, parse_claim, parse_count, parse_flop_rate, parse_seconds
from perfkit.plan.rental.gpu_names import ALL, resolve_gpus

_DTYPE = "bf16"
_FALLBACK_DTYPE = "fp16"  # of GPUs without bf16
_NODE = 8


def audit_mfu(
    source: str | None = None,
    *,
    model: str | None = None,
    params: str | float | None = None,
    active_params: str | float | None = None,
    layers: int | None = None,
    width: int | None = None,
    vocab: int | None = None,
    tied: bool = False,
    seq_len: int | None = None,
    tokens_per_s: str | float | None = None,
    step: str | float | None = None,
    tokens_per_step: str | float | None = None,
    gpus: int | None = None,
    gpus_per_node: int = _NODE,
    accumulation: int = 1,
    gpu: str | None = None,
    peak: str | float | None = None,
    dtype: str | None = None,
    claimed: str | float | None = None,
) -> MfuAudit:
    """MFU under every convention, and what reproduces a printed figure.

    Args:
        source: a run folder (`FOLDER@VARIANT`), a trace, or what `model` takes.
        model: a public model of `perfkit workloads`, a config.json or its folder, or `hf:CLASS:KEY=VALUE`.
        params: parameters in place of a model (`8b`, or exactly); with experts, `active_params` of a token.
        layers, width, vocab, tied: sizes of a model that is given by `params`; `tied`: its head is its embedding.
        seq_len: tokens of a sequence.
        tokens_per_s: of all GPUs; or `step` (`560ms`) and `tokens_per_step`.
        gpus, gpus_per_node: as the tokens are of.
        accumulation: microbatches of a step.
        gpu: a device of `perfkit devices`; or `peak` of one (`275TFLOP/s`).
        dtype: of the matrix products, whose peak counts.
        claimed: a printed share of the peak (`41.2%`), FLOP/s of a GPU (`198TFLOP/s`), or FLOPs of a token (`58GFLOP`).

    Raises:
        UsageError: too little or too much is given, or a name is unknown.
    """
    if source is not None and is_model(source):
        if model is not None:
            raise UsageError(f"two models are given, {source} and {model}: name one")
        source, model = None, source
    if model is not None and params is not None:
        raise UsageError("a model and --params are given: give one")
    measured = None if source is None else measure_step(source, gpu)
    chosen = _choose_model(model, params, active_params, layers, width, vocab, tied, measured)
    length = seq_len or chosen.seq_len
    speed = _choose_speed(tokens_per_s, step, tokens_per_step, gpus, measured)
    device = _choose_device(gpu, peak, dtype, measured)
    setting = Setting(speed.gpus, gpus_per_node, accumulation, device.entry, device.peak, device.peaks)
    rate = None if speed.tokens_per_s is None else speed.tokens_per_s.value / speed.gpus
    rows = [] if chosen.shape is None else [
        _make_row(convention, chosen.shape, length, rate, device.peak)
        for convention in (*CONVENTIONS, *([ALL_EXPERTS] if chosen.shape.inactive_params else []))
        if _is_apt(convention, chosen.shape)
    ]  # fmt: skip
    if not rows and measured is None:
        raise UsageError(
            "nothing to audit: name a model, a run or a trace, or give --params; for example perfkit mfu llama-3-8b"
        )
    claim = None
    if claimed is not None:
        printed = parse_claim(claimed)
        if chosen.shape is None:
            raise UsageError("--claimed needs the model: name it with --model, or give --params, --layers and --width")
        errors = speed.error + chosen.error + device.error
        claim = explain_claim(printed, chosen.shape, length, setting, rate, errors)
        if not claim.tried:
            raise UsageError(
                "--claimed needs the speed and the GPU: give --tokens-per-s and --gpu (or --peak); FLOPs of a token "
                "need neither"
            )
    return MfuAudit(
        model=chosen.shape,
        seq_len=length,
        gpu=device.name,
        gpus=speed.gpus,
        dtype=device.dtype,
        tokens_per_s=None if speed.tokens_per_s is None else speed.tokens_per_s.value,
        peak=device.peak,
        peaks=device.peaks,
        rows=(*rows, *_count_measured(measured, speed, device.peak)),
        claim=claim,
        source="" if measured is None else measured.label,
        step_s=None if measured is None else measured.step_s,
        tokens_per_step=speed.tokens_per_step,
        trains=None if measured is None else measured.trains,
        counted_mfu=None if measured is None else measured.mfu,
        counted_hfu=None if measured is None else measured.hfu,
    )


class _Model(NamedTuple):
    shape: ModelShape | None
    seq_len: int | None
    error: float


class _Speed(NamedTuple):
    """`tokens_per_s` of all GPUs, None if unknown; `error` is that of the figures it is made of."""

    tokens_per_s: WrittenNumber | None
    tokens_per_step: float | None
    gpus: int

    @property
    def error(self) -> float:
        return 0.0 if self.tokens_per_s is None else self.tokens_per_s.error


class _Device(NamedTuple):
    name: str
    dtype: str
    entry: CatalogEntry | None
    peak: MfuPeak | None
    peaks: tuple[MfuPeak, ...]
    error: float = 0.0


def _choose_model(
    model: str | None,
    params: str | float | None,
    active_params: str | float | None,
    layers: int | None,
    width: int | None,
    vocab: int | None,
    tied: bool,
    measured: MeasuredStep | None,
) -> _Model:
    if params is not None:
        typed, active = make_typed_shape(
            params, active_params=active_params, layers=layers, width=width, vocab=vocab, tied=tied
        )
        return _Model(typed, None, active.error)
    sizes = {"--active-params": active_params, "--layers": layers, "--width": width, "--vocab": vocab, "--tied": tied}
    given = [name for name, value in sizes.items() if value]
    if given:
        raise UsageError(f"{', '.join(given)}: only with --params; a model has its own", id="usage.conflict")
    if model is not None:
        return _Model(*resolve_model(model), 0.0)
    if measured is None or measured.workload is None:
        return _Model(None, None, 0.0)
    try:
        return _Model(*shape_workload(measured.workload), 0.0)
    except (UsageError, UnavailableError):
        return _Model(None, None, 0.0)  # not counted, or not here: perfkit's count of ops is left


def _choose_speed(
    tokens_per_s: str | float | None,
    step: str | float | None,
    tokens_per_step: str | float | None,
    gpus: int | None,
    measured: MeasuredStep | None,
) -> _Speed:
    if tokens_per_s is not None and (step is not None or tokens_per_step is not None or measured is not None):
        raise UsageError("--tokens-per-s is given beside a step: give one of them", id="usage.conflict")
    if gpus is not None and measured is not None and tokens_per_step is None:
        raise UsageError("--gpus of a run or trace: give --tokens-per-step of all of them, too", id="usage.conflict")
    count = gpus or (1 if measured is None else measured.gpus)
    if tokens_per_s is not None:
        return _Speed(parse_count(tokens_per_s, "--tokens-per-s"), None, count)
    seconds = None if step is None else parse_seconds(step, "--step")
    tokens = None if tokens_per_step is None else parse_count(tokens_per_step, "--tokens-per-step")
    if measured is not None:
        if seconds is not None:
            raise UsageError("--step of a run or trace: it is measured", id="usage.conflict")
        seconds = WrittenNumber(measured.step_s)
        if tokens is None and measured.tokens is not None:
            tokens = WrittenNumber(float(measured.tokens))
    elif (seconds is None) != (tokens is None):
        raise UsageError("--step and --tokens-per-step must be given together, or --tokens-per-s")
    if seconds is None or tokens is None:
        return _Speed(None, None if tokens is None else tokens.value, count)
    return _Speed(WrittenNumber(tokens.value / seconds.value, tokens.error + seconds.error), tokens.value, count)


def _choose_device(
    gpu: str | None, peak: str | float | None, dtype: str | None, measured: MeasuredStep | None
) -> _Device:
    if gpu is not None and peak is not None:
        raise UsageError("--gpu and --peak are given: give one", id="usage.conflict")
    if peak is not None:
        rate = parse_flop_rate(peak, "--peak")
        given = MfuPeak(dtype=dtype or _DTYPE, dense=rate.value, sparse=None, source="given")
        return _Device("given peak", given.dtype, None, given, (given,), rate.error)
    entry = _find_gpu(gpu) if gpu is not None else find_entry(measured.device_name) if measured else None
    if entry is None:
        return _Device(measured.device_name if measured else "", dtype or (measured.dtype if measured else ""), None,
                       None, ())  # fmt: skip
    peaks = list_peaks(entry)
    known = {each.dtype for each in peaks}
    wanted = dtype or (measured.dtype if measured is not None and measured.dtype in known else "")
    wanted = wanted or (_DTYPE if _DTYPE in known else _FALLBACK_DTYPE)
    return _Device(entry.id, wanted, entry, select_peak(peaks, wanted, entry.id), peaks)


def _find_gpu(gpu: str) -> CatalogEntry:
    """The GPU of a name; of a model in several forms (`h100`) the one with the most units, as most figures are of."""
    if "," in gpu or gpu.strip().lower() == ALL:
        raise UsageError(f"--gpu {gpu}: expected one GPU, such as h100-sxm")
    return max(resolve_gpus(gpu), key=lambda entry: entry.derivation.units)


def _is_apt(convention: Convention, shape: ModelShape) -> bool:
    """False for a convention that says nothing of the model: windows or learned positions that it does not have, and a
    formula of layers without experts."""
    if convention.id.endswith(".windows"):
        return shape.has_windows
    if convention.formula.params == ParamSet.GPT:
        return not shape.inactive_params
    return convention.formula.params != ParamSet.NO_POSITIONS or bool(shape.position_table)


def _make_row(
    convention: Convention, shape: ModelShape, seq_len: int | None, rate: float | None, peak: MfuPeak | None
) -> MfuRow:
    counted = count_flops(convention.formula, shape, seq_len, all_experts=convention is ALL_EXPERTS)
    if not isinstance(counted, FlopsPerToken):
        return MfuRow(id=convention.id, name=convention.name, users=convention.users, reason=counted)
    flops_per_s = None if rate is None else counted.value * rate
    return MfuRow(
        id=convention.id,
        name=convention.name,
        users=convention.users,
        formula=counted.text,
        terms=counted.terms,
        flops_per_token=counted.value,
        flops_per_s=flops_per_s,
        mfu=None if flops_per_s is None or peak is None else flops_per_s / peak.dense,
        mfu_sparse=None if flops_per_s is None or peak is None or peak.sparse is None else flops_per_s / peak.sparse,
    )


def _count_measured(measured: MeasuredStep | None, speed: _Speed, peak: MfuPeak | None) -> tuple[MfuRow, ...]:
    """Rows of what perfkit counted op by op in a run or trace."""
    if measured is None:
        return ()
    return tuple(
        _make_counted_row(id, name, users, flops, measured.step_s * speed.gpus, speed.tokens_per_step, peak)
        for id, name, users, flops in (
            ("counted", "counted ops", "matrix products that forward and backward need, by op", measured.model_flops),
            (
                "counted.ran",
                "counted ops that ran",
                "without skipped pairs, with what ran twice",
                measured.hardware_flops,
            ),
        )
    )


def _make_counted_row(
    id: str,
    name: str,
    users: str,
    flops: float | None,
    gpu_seconds: float,
    tokens: float | None,
    peak: MfuPeak | None,
) -> MfuRow:
    if flops is None:
        return MfuRow(id=id, name=name, users=users, counted=True, reason="FLOPs were not counted")
    rate = flops / gpu_seconds
    return MfuRow(
        id=id,
        name=name,
        users=users,
        counted=True,
        flops_per_token=None if tokens is None else flops / tokens,
        flops_per_s=rate,
        mfu=None if peak is None else rate / peak.dense,
        mfu_sparse=None if peak is None or peak.sparse is None else rate / peak.sparse,
    )
