"""The machine's price, and the cost of a token or sample at its speed."""

import re
from decimal import Decimal

from perfkit.core.errors import UsageError
from perfkit.core.spec import Struct
from perfkit.core.units import format_significant

_HOUR_S = 3600.0
_PRICE = re.compile(
    r"(?P<symbol>[^\w\s.,/+-]?)\s*(?P<amount>\d+(?:\.\d+)?)\s*(?P<code>[A-Za-z]{3})?\s*/\s*(?:h|hr|hour)"
)

# So many units cost an amount that can be read.
_UNITS = {"tokens": (1e6, "1M tokens")}
_OTHERS = 1e3


class Price(Struct):
    """Hourly price of everything that a run uses. `currency` is a sign (`$`), a code (`EUR`), or empty."""

    per_hour: float
    currency: str = ""

    def cost(self, per_second: float, unit: str) -> float:
        """The cost of the units that `format_cost_unit` names (`tokens`, `samples`), at this throughput."""
        return self.per_hour / _HOUR_S / per_second * _UNITS.get(unit, (_OTHERS, ""))[0]

    def format_amount(self, amount: float) -> str:
        """`$2.49`, `2.49 EUR`, `2.49`."""
        return self._add_currency(format_significant(amount))

    @property
    def label(self) -> str:
        """In full, as it may be given: `$2.49/h`."""
        whole, _, cents = f"{Decimal(str(self.per_hour)):f}".partition(".")
        return f"{self._add_currency(f'{whole}.{cents:0<2}')}/h"

    def _add_currency(self, amount: str) -> str:
        return f"{amount} {self.currency}" if self.currency.isalpha() else f"{self.currency}{amount}"


def format_cost_unit(unit: str) -> str:
    """Format the unit of a cost: `1M tokens`, `1k samples`."""
    return _UNITS.get(unit, (0.0, f"1k {unit}"))[1]


def parse_price(text: str) -> Price:
    """`2.49/h`, `$2.49/h`, `2.49EUR/h`; a `UsageError` for anything else."""
    match = _PRICE.fullmatch(text.strip())
    if match is None or (match["symbol"] and match["code"]):
        raise UsageError(f"{text!r} is not a price: expected an hourly amount such as 2.49/h or $2.49/h")
    price = Price(per_hour=float(match["amount"]), currency=match["symbol"] or (match["code"] or "").upper())
    if not price.per_hour:
        raise UsageError(f"{text!r}: a price must be above zero")
    return price
