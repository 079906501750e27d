"""The length of a training run, as stated: `300B`, `15T` or `2e9` tokens."""

from perfkit.core.errors import UsageError
from perfkit.core.parse_units import parse_amount


def parse_run_units(text: str, where: str) -> float:
    """The tokens or samples of a run; a `UsageError` that names `where` for anything else."""
    try:
        units = parse_amount(text.strip().replace("B", "G"), "1/s")
    except UsageError:
        units = 0.0
    if not units:
        raise UsageError(f"{where}: {text!r}: expected a number of tokens, such as 20B")
    return units
