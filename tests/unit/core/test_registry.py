import sys
from importlib.metadata import EntryPoint

import pytest

from perfkit.core import registry
from perfkit.core.errors import UsageError
from perfkit.core.registry import Registry


@pytest.fixture
def shapes() -> Registry[type]:
    return Registry("shape", "perfkit.test-shapes", {"square": "fractions:Fraction", "circle": "decimal:Decimal"})


def test_names_keep_the_order_of_the_table(shapes: Registry[type]) -> None:
    assert shapes.list_names() == ("square", "circle")


def test_load_imports_the_object(shapes: Registry[type]) -> None:
    from decimal import Decimal

    assert shapes.load("circle") is Decimal


def test_naming_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    table: Registry[object] = Registry("poem", "perfkit.test-poems", {"zen": "this:s"})
    assert table.list_names() == ("zen",)
    assert "this" not in sys.modules


def test_an_unknown_name_is_a_usage_error_naming_the_nearest(shapes: Registry[type]) -> None:
    with pytest.raises(UsageError, match=r"'sqare'.*'square'"):
        shapes.load("sqare")


def test_entry_points_add_names_after_the_built_in_ones_and_never_replace_them(
    shapes: Registry[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        EntryPoint("triangle", "datetime:date", "perfkit.test-shapes"),
        EntryPoint("arc", "datetime:time", "perfkit.test-shapes"),
        EntryPoint("square", "datetime:datetime", "perfkit.test-shapes"),
    ]
    monkeypatch.setattr(registry, "read_entry_points", lambda group: [p for p in points if p.group == group])
    from datetime import date
    from fractions import Fraction

    assert shapes.list_names() == ("square", "circle", "arc", "triangle")
    assert shapes.load("triangle") is date
    assert shapes.load("square") is Fraction
