"""Prices of GPUs, as the user states them: perfkit ships none."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.plan.rental.gpu_names import resolve_gpus
from perfkit.store.price import Price, parse_price

PRICES_FILE = "prices.json"
CURRENCY = "EUR"  # of a price that states none

Prices = Mapping[str, Price]  # of an hour of one GPU, by id


def load_prices(file: Path | None, given: Iterable[str], gpus: Iterable[CatalogEntry]) -> Prices:
    """The prices of GPUs: those of a file, the working folder's `prices.json` without one; `given` ones replace them.

    The file maps names to hourly prices: `{"h100-sxm": "2.49USD/h", "l40s": 0.9}`. `given` are `h100-sxm=2.49/h`, or
    `2.49/h` for all `gpus`. Without a currency a price is in EUR.

    Raises:
        UsageError: a file that is none, an unknown GPU, a malformed price, or prices in several currencies.
    """
    prices: dict[str, Price] = {}
    path = file or Path(PRICES_FILE)
    if file is not None or path.is_file():
        prices |= _read_prices(path)
    for text in given:
        name, equals, amount = text.rpartition("=")
        price = _parse_price(amount, "--price")
        entries = resolve_gpus(name) if equals else gpus
        prices |= {entry.id: price for entry in entries}
    currencies = sorted({price.currency for price in prices.values()})
    if len(currencies) > 1:
        raise UsageError(f"prices in {' and '.join(currencies)} cannot be compared: state one currency")
    return prices


def _read_prices(path: Path) -> dict[str, Price]:
    if not path.is_file():
        raise UsageError(f"no such file {str(path)!r} of prices", id="usage.no_file")
    try:
        stated = msgspec.json.decode(path.read_bytes(), type=dict[str, str | float])
    except msgspec.DecodeError as error:
        raise UsageError(
            f'{str(path)!r} has no prices: expected {{"h100-sxm": "2.49EUR/h"}}; --prices names another file: {error}'
        ) from None
    return {
        entry.id: _parse_price(f"{amount}/h" if isinstance(amount, float | int) else amount, str(path))
        for name, amount in stated.items()
        for entry in resolve_gpus(name)
    }


def _parse_price(text: str, where: str) -> Price:
    try:
        price = parse_price(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return price if price.currency else replace(price, currency=CURRENCY)
