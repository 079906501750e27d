"""The result of an audit of MFU."""

from perfkit.core.record.quantity import Quantity
from perfkit.core.spec import Struct
from perfkit.mfu.conventions import Term
from perfkit.mfu.model_shape import ModelShape
from perfkit.mfu.peak_rates import MfuPeak


class MfuRow(Struct):
    """A convention, and what it gives.

    `flops_per_token` of forward and backward, `flops_per_s` of one GPU, `mfu` over the dense peak and `mfu_sparse` over
    that with 2:4 sparsity are None where they are unknown, for which `reason` says why. `counted` marks what perfkit
    counted op by op, without a formula.
    """

    id: str
    name: str
    users: str = ""
    formula: str = ""
    terms: tuple[Term, ...] = ()
    flops_per_token: float | None = None
    flops_per_s: float | None = None
    mfu: float | None = None
    mfu_sparse: float | None = None
    counted: bool = False
    reason: str = ""


class Mistake(Struct):
    """A mistake behind a figure: `factor` is the figure with it over the one without."""

    id: str
    text: str
    factor: float


class ClaimMatch(Struct):
    """A way to a printed figure: a formula, at most one mistake, and its `value` in the claim's unit.

    `convention` is the id of the formula's name, "" for a formula without one. `difference` is relative to the claim.
    `corrected` is the same without the mistake.
    """

    convention: str
    name: str
    formula: str
    mistake: Mistake | None
    value: float
    corrected: float
    difference: float


class MfuClaim(Struct):
    """A printed figure and what reproduces it.

    `unit` is `1` for a share of the peak, `FLOP/s` of one GPU, or `FLOP/token`. A match is within `tolerance`
    (relative): the last digits of all figures given, and of peaks. `matches` are without a mistake first; where there
    are none, `nearest` are the closest. `tried` ways would have matched about `by_chance` times by chance.
    """

    value: float
    unit: str
    tolerance: float
    matches: tuple[ClaimMatch, ...]
    nearest: tuple[ClaimMatch, ...]
    tried: int
    by_chance: float


class MfuAudit(Struct):
    """MFU under every convention, as `perfkit mfu --json` prints it.

    `tokens_per_s` are of all `gpus`. `peak` is the dense one of `dtype` of one GPU, and `peaks` has all of its dtypes.
    `step_s`, `tokens_per_step`, `counted_mfu` and `counted_hfu` are of a run or trace; `trains` is whether it shows
    a backward pass, None if unknown: all formulas are of forward and backward.
    """

    model: ModelShape | None
    seq_len: int | None
    gpu: str
    gpus: int
    dtype: str
    tokens_per_s: float | None
    peak: MfuPeak | None
    peaks: tuple[MfuPeak, ...]
    rows: tuple[MfuRow, ...]
    claim: MfuClaim | None = None
    source: str = ""
    step_s: float | None = None
    tokens_per_step: float | None = None
    trains: bool | None = None
    counted_mfu: Quantity | None = None
    counted_hfu: Quantity | None = None
