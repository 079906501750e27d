"""Encodes the list of runs as JSON."""

from typing import Any

import msgspec

from perfkit.core import units
from perfkit.core.record.quantity import Quantity, Unknown
from perfkit.store.listing import ListedRun
from perfkit.store.suite_state import SuiteState

TONES = {
    SuiteState.OK: "good",
    SuiteState.RUNNING: "live",
    SuiteState.INTERRUPTED: "unsure",
    SuiteState.UNDECIDED: "unsure",
    SuiteState.EMPTY: "bad",
    SuiteState.FAILED: "bad",
    SuiteState.DAMAGED: "bad",
}
# Tones of check verdicts, which take precedence over the folder's state.
VERDICT_TONES = {"pass": "good", "improved": "good", "fail": "bad"}


def build_row(item: ListedRun) -> dict[str, Any]:
    """A listed run with figures also as text; `status` is a check's verdict, else the state."""
    figures = item.figures
    return {
        **msgspec.to_builtins(item),
        "status": item.verdict or item.state,
        "tone": VERDICT_TONES.get(item.verdict, "unsure") if item.verdict else TONES[item.state],
        "created": item.created_at[:16].replace("T", " "),
        "figures": {
            "subject": figures.subject,
            "step": _build_figure(figures.step),
            "throughput": _build_figure(figures.throughput),
            "peak": _build_figure(figures.peak),
            "mfu": _build_figure(_check_share(figures.mfu)),
        },
    }


def _check_share(share: Quantity) -> Quantity:
    """The share of a peak; unknown if above 1, which older reports contain."""
    if isinstance(share, Unknown) or share.value <= 1:
        return share
    return Unknown(reason="the assumed peak is too low: see `perfkit report`")


def _build_figure(quantity: Quantity) -> dict[str, Any]:
    """A quantity with its text; for unknowns `value` is null and `reason` is set."""
    if isinstance(quantity, Unknown):
        return {"value": None, "text": "n/a", "reason": quantity.reason}
    text = {"s": units.format_seconds, "bytes": units.format_bytes, "1": units.format_percent}.get(quantity.unit)
    shown = text(quantity.value) if text else f"{units.format_significant(quantity.value)} {quantity.unit}"
    return {
        "value": quantity.value,
        "text": shown,
        "of": quantity.of,
        "unit": quantity.unit,
        "how": quantity.how,
        "source": quantity.source,
    }
