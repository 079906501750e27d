"""Rules about the categories: which holds much of the peak, what made it, and what would lower it."""

from collections.abc import Iterator, Sequence

import msgspec

from perfkit.allocations import (
    ACTIVATION,
    AUTOCAST,
    COMMUNICATION_BUFFER,
    GRADIENT,
    OPTIMIZER_STATE,
    PARAMETER,
    RECOMPUTED,
    RETAINED,
    TEMPORARY,
    UNKNOWN,
    UNSHARDED_PARAMETER,
)
from perfkit.analysis.findings.memory.remedies import (
    EIGHT_BITS,
    FUSED_UPDATE,
    HELD_IN_FORWARD,
    ONE_AT_A_TIME,
    REMEDIES,
    SHORTER_HISTORY,
    Remedy,
)
from perfkit.analysis.findings.memory.tensors import logits_of
from perfkit.analysis.findings.memory.thresholds import LARGE, NOTABLE, SMALL_BYTES, SMALL_ON_HOST, UNEXPLAINED
from perfkit.analysis.findings.memory.view import AccountView, origins
from perfkit.analysis.findings.optimizers import ADAM_LIKE, FUSED, LBFGS
from perfkit.analysis.model.finding import Finding
from perfkit.units import nbytes, percent


def activations(view: AccountView) -> Iterator[Finding]:
    """What forward keeps for backward."""
    yield from _large(view, ACTIVATION, "Activations hold", REMEDIES[ACTIVATION])


def recomputed(view: AccountView) -> Iterator[Finding]:
    """What checkpointing computes again and holds while a block's backward runs."""
    yield from _large(view, RECOMPUTED, "Recomputed activations hold", REMEDIES[RECOMPUTED])


def optimizer_state(view: AccountView) -> Iterator[Finding]:
    """Moments and master weights; of LBFGS the directions that it remembers."""
    if view.on_cpu and view.bytes_of(OPTIMIZER_STATE) < SMALL_ON_HOST:
        return
    remedies = REMEDIES[OPTIMIZER_STATE]
    if view.optimizers == {LBFGS}:
        remedies = (SHORTER_HISTORY,)
    elif view.optimizers and not view.optimizers & ADAM_LIKE:
        remedies = tuple(remedy for remedy in remedies if remedy is not EIGHT_BITS)
    yield from _large(view, OPTIMIZER_STATE, "The optimizer's state holds", remedies)


def gradients(view: AccountView) -> Iterator[Finding]:
    """Gradients alive at the peak; those alive in forward wait for nothing unless they are accumulated."""
    early = view.account.peak_phase in ("data", "forward")
    yield from _large(
        view, GRADIENT, "Gradients hold", (HELD_IN_FORWARD, *REMEDIES[GRADIENT]) if early else REMEDIES[GRADIENT]
    )


def parameters(view: AccountView) -> Iterator[Finding]:
    """The model itself."""
    yield from _large(view, PARAMETER, "Parameters hold", REMEDIES[PARAMETER])


def autocast_copies(view: AccountView) -> Iterator[Finding]:
    """Weights that autocast keeps in 16 bits beside the originals."""
    yield from _large(view, AUTOCAST, "Autocast's copies of weights hold", REMEDIES[AUTOCAST])


def unsharded_parameters(view: AccountView) -> Iterator[Finding]:
    """What sharding has gathered at the peak."""
    yield from _large(view, UNSHARDED_PARAMETER, "Gathered parameters hold", REMEDIES[UNSHARDED_PARAMETER])


def communication_buffers(view: AccountView) -> Iterator[Finding]:
    """Buckets of gradients, and what collectives read and write."""
    yield from _large(view, COMMUNICATION_BUFFER, "Communication buffers hold", REMEDIES[COMMUNICATION_BUFFER])


def temporaries(view: AccountView) -> Iterator[Finding]:
    """Tensors of a moment, which set the peak."""
    remedies = REMEDIES[TEMPORARY]
    if view.account.peak_phase == "optimizer":
        remedies = (FUSED_UPDATE,) if FUSED.issuperset(view.optimizers) else (ONE_AT_A_TIME,)
        if view.optimizers == {LBFGS}:
            return  # its vectors are of all parameters at once, whatever it is told
    yield from _large(view, TEMPORARY, "Temporaries hold", remedies)


def retained(view: AccountView) -> Iterator[Finding]:
    """What every layer keeps to the end of a forward pass: as it should be in inference with a cache."""
    size = view.bytes_of(RETAINED)
    if view.share(size) < LARGE or size < SMALL_BYTES:
        return
    rows = [row for row in view.account.rows if row.category == RETAINED]
    yield view.remark(
        "note",
        f"What each layer keeps to the end of forward holds {percent(view.share(size), 0)} of the peak",
        f"{view.of_peak(size)}: {origins(rows)}",
        "keys and values of a cache are expected in inference: shorter contexts, a quantized or paged cache and "
        "grouped-query attention hold less. Where nothing is generated from them, and in training, pass "
        "use_cache=False; ask for no hidden states, and run under torch.inference_mode() if no backward pass follows",
    )


def unexplained(view: AccountView) -> Iterator[Finding]:
    """Bytes without a category."""
    size = view.bytes_of(UNKNOWN)
    if view.share(size) <= UNEXPLAINED:
        return
    rows = [row for row in view.account.rows if row.category == UNKNOWN and (row.op or row.module)]
    old = "allocated before the recording began, such as data held in memory, or with nothing that tells what for"
    made = origins(rows) if 2 * sum(row.bytes for row in rows) > size else ""
    yield view.remark(
        "note",
        f"{percent(view.share(size))} of the peak is of no known category",
        f"{nbytes(size)}: {made or old}",
        "begin to record before the model is built, and record stacks (torch.cuda.memory._record_memory_history with "
        "context='all') or run the loop under perfkit"
        if view.techniques is None
        else "read the categories as of what is known; the ops that made the rest are in the table of rows",
    )


def _large(view: AccountView, category: str, subject: str, remedies: Sequence[Remedy]) -> Iterator[Finding]:
    """A category that holds much of the peak and that something would lower.

    Logits are left out: they have a finding of their own, since what lowers the results of other ops does not help.
    """
    logits = [row for row in logits_of(view) if row.category == category]
    size = view.bytes_of(category) - sum(row.bytes for row in logits)
    won, action = min(view.winnable(category), size), view.advice(remedies)
    small = SMALL_ON_HOST if view.on_cpu else SMALL_BYTES
    if view.share(size) < LARGE or view.share(won) < NOTABLE or won < small or not action:
        return
    rows = [row for row in view.account.rows if row.category == category]
    made = origins([*rows, *(msgspec.structs.replace(row, bytes=-row.bytes) for row in logits)])
    where = f", reached in {view.account.peak_phase}" if view.account.peak_phase else ""
    yield view.gain(
        f"{subject} {percent(view.share(size), 0)} of the peak" + (" beside logits" if logits else ""),
        f"{view.of_peak(size)}{where}" + (f"; most: {made}" if made else ""),
        action,
        won,
        details=(
            f"an upper bound: without any of them the peak would be {nbytes(view.account.peak_bytes - won)}"
            + (", at another moment of the step" if won < size else ""),
        ),
    )
