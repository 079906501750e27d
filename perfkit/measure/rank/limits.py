"""Limits of a run: those that nothing could keep are questioned before it is started."""

import math

from perfkit.core.errors import UsageError
from perfkit.core.units import format_bytes

# Importing torch alone takes 0.6 GiB of addresses and seconds, on any machine.
_LEAST_MEMORY_BYTES = 512 * 2**20
_LEAST_TIMEOUT_S = 1.0
_MOST_TIMEOUT_S = 14 * 86400.0  # waiting for a pipe counts milliseconds in 32 bits

# The share of memory that is to be left: a real training needs more than a few steps at times, for fragments, longer
# evaluations and other ranks.
MARGIN = 0.1


def check_limits(timeout_s: float, memory_limit_bytes: int | None) -> None:
    """Raise `UsageError` for limits that are not numbers, or too small for any run."""
    if not math.isfinite(timeout_s) or not _LEAST_TIMEOUT_S <= timeout_s <= _MOST_TIMEOUT_S:
        raise UsageError(
            f"--timeout {timeout_s:g}: expected {_LEAST_TIMEOUT_S:g} to {_MOST_TIMEOUT_S:.0f} seconds (two weeks)"
        )
    if memory_limit_bytes is not None and memory_limit_bytes < _LEAST_MEMORY_BYTES:
        raise UsageError(
            f"--memory-limit is {format_bytes(memory_limit_bytes)}, less than importing torch needs; it limits "
            "a rank's address space, such as 6GiB. Check the unit."
        )


def check_sampling(rounds: int | None, precision: float, budget_s: float | None) -> None:
    """Raise `UsageError` for an impossible precision or time."""
    if rounds is not None and rounds < 0:
        raise UsageError(f"rounds: expected 0 or more, got {rounds}")
    if not 0 < precision < 1:
        raise UsageError(f"precision {precision:g}: expected a percentage between 0 and 100, such as 3%")
    if budget_s is not None and not 0 < budget_s < math.inf:
        raise UsageError(f"budget {budget_s:g} s: expected more than 0, such as 5min")
