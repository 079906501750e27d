"""Rules about categories that hold much of the peak: their origins and remedies."""

from collections.abc import Iterator, Sequence

import msgspec

from perfkit.analysis.findings.optimizer_steps import ADAM_LIKE, FUSED, LBFGS
from perfkit.analysis.memory.findings.account_view import AccountView, format_origins
from perfkit.analysis.memory.findings.memory_thresholds import LARGE, NOTABLE, SMALL_BYTES, SMALL_ON_HOST, UNEXPLAINED
from perfkit.analysis.memory.findings.remedies import (
    EIGHT_BITS,
    FUSED_UPDATE,
    HELD_IN_FORWARD,
    ONE_AT_A_TIME,
    REMEDIES,
    SHORTER_HISTORY,
    Remedy,
)
from perfkit.analysis.memory.findings.tensors import select_logits_rows
from perfkit.analysis.model.finding import Finding
from perfkit.core.allocations import (
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
from perfkit.core.units import format_bytes, format_percent


def find_activations(view: AccountView) -> Iterator[Finding]:
    """Tensors that forward keeps for backward."""
    yield from _find_large("memory.activations", view, ACTIVATION, "Activations", REMEDIES[ACTIVATION])


def find_recomputed_activations(view: AccountView) -> Iterator[Finding]:
    """Tensors that checkpointing recomputes for a block's backward."""
    yield from _find_large(
        "memory.recomputed_activations", view, RECOMPUTED, "Recomputed activations", REMEDIES[RECOMPUTED]
    )


def find_optimizer_state(view: AccountView) -> Iterator[Finding]:
    """Moments and master weights; of LBFGS its directions."""
    if view.on_cpu and view.sum_bytes(OPTIMIZER_STATE) < SMALL_ON_HOST:
        return
    remedies = REMEDIES[OPTIMIZER_STATE]
    if view.optimizers == {LBFGS}:
        remedies = (SHORTER_HISTORY,)
    elif view.optimizers and not view.optimizers & ADAM_LIKE:
        remedies = tuple(remedy for remedy in remedies if remedy is not EIGHT_BITS)
    yield from _find_large("memory.optimizer_state", view, OPTIMIZER_STATE, "Optimizer state", remedies)


def find_gradients(view: AccountView) -> Iterator[Finding]:
    """Gradients alive at the peak; those alive in forward are not needed unless they are accumulated."""
    early = view.account.peak_phase in ("data", "forward")
    yield from _find_large(
        "memory.gradients",
        view,
        GRADIENT,
        "Gradients",
        (HELD_IN_FORWARD, *REMEDIES[GRADIENT]) if early else REMEDIES[GRADIENT],
    )


def find_parameters(view: AccountView) -> Iterator[Finding]:
    """The model itself."""
    yield from _find_large("memory.parameters", view, PARAMETER, "Parameters", REMEDIES[PARAMETER])


def find_autocast_copies(view: AccountView) -> Iterator[Finding]:
    """The 16-bit weight copies that autocast caches in addition to the originals."""
    yield from _find_large("memory.autocast_copies", view, AUTOCAST, "Autocast weight copies", REMEDIES[AUTOCAST])


def find_unsharded_parameters(view: AccountView) -> Iterator[Finding]:
    """Parameters that sharding has gathered at the peak."""
    yield from _find_large(
        "memory.unsharded_parameters",
        view,
        UNSHARDED_PARAMETER,
        "Gathered parameters",
        REMEDIES[UNSHARDED_PARAMETER],
    )


def find_communication_buffers(view: AccountView) -> Iterator[Finding]:
    """Buckets of gradients, and buffers of collectives."""
    yield from _find_large(
        "memory.communication_buffers",
        view,
        COMMUNICATION_BUFFER,
        "Communication buffers",
        REMEDIES[COMMUNICATION_BUFFER],
    )


def find_temporaries(view: AccountView) -> Iterator[Finding]:
    """Short-lived tensors, which set the peak."""
    remedies = REMEDIES[TEMPORARY]
    if view.account.peak_phase == "optimizer":
        remedies = (FUSED_UPDATE,) if FUSED.issuperset(view.optimizers) else (ONE_AT_A_TIME,)
        if view.optimizers == {LBFGS}:
            return  # its vectors cover all parameters at once, whatever its settings
    yield from _find_large("memory.temporaries", view, TEMPORARY, "Temporaries", remedies)


def find_retained_outputs(view: AccountView) -> Iterator[Finding]:
    """Outputs that every layer keeps to the end of forward, as expected in inference with a cache."""
    size = view.sum_bytes(RETAINED)
    if view.get_share(size) < LARGE or size < SMALL_BYTES:
        return
    rows = [row for row in view.account.rows if row.category == RETAINED]
    yield view.build_remark(
        "memory.retained_outputs",
        "note",
        f"Retained layer outputs: {format_percent(view.get_share(size), 0)} of peak",
        f"{view.format_peak_share(size)}: {format_origins(rows)}",
        "pass use_cache=False unless the model generates, request no hidden states, and use torch.inference_mode() "
        "without a backward pass",
        details=(
            "a key-value cache is expected in inference: shorten contexts, quantize or page the cache, or use "
            "grouped-query attention to shrink it",
        ),
        figures={"bytes": size, "share": view.get_share(size)},
    )


def find_uncategorized_memory(view: AccountView) -> Iterator[Finding]:
    """Bytes without a category."""
    size = view.sum_bytes(UNKNOWN)
    if view.get_share(size) <= UNEXPLAINED:
        return
    rows = [row for row in view.account.rows if row.category == UNKNOWN and (row.op or row.module)]
    unknown = "allocated before recording began (such as data in memory), or of unrecorded purpose"
    origins = format_origins(rows) if 2 * sum(row.bytes for row in rows) > size else ""
    yield view.build_remark(
        "memory.uncategorized",
        "note",
        f"{format_percent(view.get_share(size))} of peak is unattributed",
        f"{format_bytes(size)}: {origins or unknown}",
        "start recording before the model is built, with stacks (torch.cuda.memory._record_memory_history with "
        "context='all'), or run the loop under perfkit"
        if view.techniques is None
        else "look up the ops of the unattributed rest in the table: the other categories are lower bounds",
        figures={"bytes": size, "share": view.get_share(size)},
    )


def _find_large(
    finding_id: str, view: AccountView, category: str, subject: str, remedies: Sequence[Remedy]
) -> Iterator[Finding]:
    """A category that holds much of the peak and has a remedy.

    Logits are left out: they have a finding of their own, since other remedies apply to them.
    """
    logits = [row for row in select_logits_rows(view) if row.category == category]
    size = view.sum_bytes(category) - sum(row.bytes for row in logits)
    won, action = min(view.get_savable_bytes(category), size), view.advise(remedies)
    small = SMALL_ON_HOST if view.on_cpu else SMALL_BYTES
    if view.get_share(size) < LARGE or view.get_share(won) < NOTABLE or won < small or not action:
        return
    rows = [row for row in view.account.rows if row.category == category]
    origins = format_origins([*rows, *(msgspec.structs.replace(row, bytes=-row.bytes) for row in logits)])
    where = f", in {view.account.peak_phase}" if view.account.peak_phase else ""
    yield view.build_gain(
        finding_id,
        f"{subject}{' without logits' if logits else ''}: {format_percent(view.get_share(size), 0)} of peak",
        f"{view.format_peak_share(size)}{where}" + (f"; most: {origins}" if origins else ""),
        action,
        won,
        techniques=view.list_techniques(remedies),
        details=(
            f"upper bound: peak {format_bytes(view.account.peak_bytes - won)} without {subject.lower()}"
            + (", at another point of the step" if won < size else ""),
        ),
        figures={"bytes": size, "share": view.get_share(size), "peak_bytes": view.account.peak_bytes},
    )
