from typing import Annotated, Literal

import msgspec
import pytest

from perfkit.core.spec import Struct
from perfkit_cli.output.listing import ListedItem, align_columns, describe_parameters, show_listing

Count = Annotated[int, msgspec.Meta(ge=1)]


class Example(Struct):
    """Parameters of an imaginary technique."""

    given: str
    mode: Literal["full", "half"] = "full"
    every: Annotated[int, msgspec.Meta(ge=1, description="every n-th block")] = 2
    fraction: float = 0.5
    pinned: bool = False
    limit: Annotated[Count | None, msgspec.Meta(description="at most")] = None


def test_parameters_are_read_from_the_fields() -> None:
    assert describe_parameters(Example) == {
        "given": "text",
        "mode": "full|half [full]",
        "every": "integer [2] every n-th block",
        "fraction": "number [0.5]",
        "pinned": "true|false [false]",
        "limit": "integer [none] at most",
    }


def test_columns_line_up() -> None:
    assert list(align_columns([("a", "bbb", "last"), ("aaaa", "b", "x")])) == ["a     bbb  last", "aaaa  b    x"]


ITEMS = (
    ListedItem(name="amp", summary="lower precision", parameters={}, unavailable=None),
    ListedItem(
        name="zero",
        summary="sharding",
        parameters={"of": "text", "n": "integer [2]"},
        unavailable=None,
        needs="2 ranks",
    ),
    ListedItem(name="pin", summary="pinning", parameters={}, unavailable="needs a GPU", needs="2 ranks"),
)


def test_each_thing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_listing(ITEMS)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "amp available lower precision",
        "zero needs 2 ranks sharding (of=text; n=integer [2])",
        "pin unavailable pinning; unavailable: needs a GPU",
    ]
