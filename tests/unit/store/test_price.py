import re

import pytest

from perfkit.core.errors import UsageError
from perfkit.store.price import Price, format_cost_unit, parse_price


@pytest.mark.parametrize(
    ("text", "price", "shown"),
    [
        ("2.49/h", Price(per_hour=2.49), "2.49/h"),
        ("$2.49/h", Price(per_hour=2.49, currency="$"), "$2.49/h"),
        ("$1234.56/h", Price(per_hour=1234.56, currency="$"), "$1234.56/h"),
        ("$12.345/h", Price(per_hour=12.345, currency="$"), "$12.345/h"),
        (" € 3 / hour ", Price(per_hour=3.0, currency="€"), "€3.00/h"),
        ("0.5eur/h", Price(per_hour=0.5, currency="EUR"), "0.50 EUR/h"),
    ],
)
def test_prices_as_they_are_written(text: str, price: Price, shown: str) -> None:
    assert parse_price(text) == price
    assert price.label == shown
    assert parse_price(price.label) == price


@pytest.mark.parametrize("text", ["2.49", "2.49/s", "-1/h", "0/h", "$2EUR/h", "free/h", "", "1e3/h", "nan/h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(repr(text))}.* price"):
        parse_price(text)


def test_the_cost_of_a_million_tokens_and_of_a_thousand_samples() -> None:
    price = Price(per_hour=3.6, currency="$")  # 0.001 a second
    assert price.cost(1000.0, "tokens") == pytest.approx(1.0)  # a million tokens take 1000 s
    assert price.cost(10.0, "samples") == pytest.approx(0.1)  # a thousand samples take 100 s
    assert (format_cost_unit("tokens"), format_cost_unit("samples")) == ("1M tokens", "1k samples")
    assert price.format_amount(0.0123) == "$0.0123"
