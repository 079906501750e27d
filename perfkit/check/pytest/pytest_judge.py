"""Judges figures against a test's thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass

from perfkit.check.judge.check_thresholds import Threshold, get_allowed_change, is_exceeded, parse_threshold
from perfkit.check.judge.quantities import GatedQuantity
from perfkit.check.pytest.figure import format_amount, format_change
from perfkit.check.pytest.quantities import BY_NAME
from perfkit.core.errors import UsageError, make_unknown_name_error

# Replaces a threshold: the figure is not compared with the baseline.
OFF = "off"

Given = str | int | float

_TIMES = ("step_time", "cpu_time", "throughput", "compile_time", "data_wait", "mfu", "energy")


@dataclass(frozen=True)
class Judgement:
    """A judged figure. `before` is the stored figure, None if only the value itself is bounded."""

    quantity: GatedQuantity
    subject: str
    threshold: Threshold
    before: float | None
    after: float

    @property
    def failed(self) -> bool:
        return is_exceeded(self.threshold, self.before or 0.0, self.after, more_is_worse=self.quantity.more_is_worse)

    @property
    def worse(self) -> bool:
        """True if worse than before, within the threshold."""
        if self.before is None or self.threshold.limit is not None or self.failed:
            return False
        return self.after > self.before if self.quantity.more_is_worse else self.after < self.before

    @property
    def improved(self) -> bool:
        """True if better than before by more than the threshold."""
        if self.before is None or self.threshold.limit is not None:
            return False
        return is_exceeded(self.threshold, self.after, self.before, more_is_worse=self.quantity.more_is_worse)

    def __str__(self) -> str:
        unit = self.quantity.unit
        after = format_amount(self.after, unit)
        if self.threshold.limit is not None:
            excess = f", {format_change(self.threshold.limit, self.after, unit)} over" if self.failed else ""
            return f"{self.subject}: {after}, allowed {format_amount(self.threshold.limit, unit)}{excess}"
        assert self.before is not None, "a change needs a previous figure"
        most = format_amount(self.before + get_allowed_change(self.threshold, self.before), unit)
        return (
            f"{self.subject}: before {format_amount(self.before, unit)}, after {after} "
            f"({format_change(self.before, self.after, unit)}), allowed {self.threshold.text}: at most {most}"
        )


def parse_gates(given: Mapping[str, Given]) -> dict[str, Threshold | None]:
    """Thresholds by quantity; None for `off`. A number is the allowed maximum.

    Raises:
        UsageError: unknown quantity, with the nearest names, or invalid threshold.
    """
    for name in given:
        if name in _TIMES:
            raise UsageError(
                f"{name} cannot be checked in a test: a single process cannot resolve a few percent. "
                "`perfkit check --against-ref` times process pairs."
            )
        if name not in BY_NAME:
            raise make_unknown_name_error("figure", name, BY_NAME)
    return {name: parse_gate(BY_NAME[name], value, name) for name, value in given.items()}


def parse_gate(quantity: GatedQuantity, given: Given, where: str) -> Threshold | None:
    """The threshold given for `where`."""
    if given == OFF:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Threshold(text=f"<={given}", limit=float(given))
    try:
        return parse_threshold(given, quantity.unit, more_is_worse=quantity.more_is_worse)
    except UsageError as error:
        raise UsageError(f"{where}={given!r}: {error}") from None
