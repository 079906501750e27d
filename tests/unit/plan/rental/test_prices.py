"""Prices by GPU: from a file, from options, in one currency."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.plan.rental.gpu_names import resolve_gpus
from perfkit.plan.rental.prices import load_prices
from perfkit.store.price import Price


def test_options_come_before_the_working_folders_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_prices(None, (), ()) == {}
    (tmp_path / "prices.json").write_text('{"a100": 1.5, "l40s": "0.8EUR/h"}')
    prices = load_prices(None, ["l40s=1.1/h", "0.5/h"], resolve_gpus("t4"))
    assert prices["l40s"] == Price(per_hour=1.1, currency="EUR")
    assert prices["t4"] == Price(per_hour=0.5, currency="EUR")
    assert {prices[name].per_hour for name in prices if name.startswith("a100")} == {1.5}


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"mi300x": "3.4USD/h"}')
    assert load_prices(tmp_path / "mine.json", (), ()) == {"mi300x": Price(per_hour=3.4, currency="USD")}


@pytest.mark.parametrize(
    ("written", "given", "message"),
    [
        ('{"mi300x": "3USD/h"}', ["l40s=2/h"], "EUR and USD"),
        ('{"mi300x": [3]}', [], "own.json"),
        ('{"mi301x": 3}', [], "mi300x"),
        ('{"mi300x": "free"}', [], "own.json"),
        ("{}", ["l40s=2"], "--price"),
        (None, [], "own.json"),
    ],
)
def test_prices_that_are_wrong(tmp_path: Path, written: str | None, given: list[str], message: str) -> None:
    file = tmp_path / "own.json"
    if written is not None:
        file.write_text(written)
    with pytest.raises(UsageError, match=message):
        load_prices(file, given, ())
