import click
import pytest

from perfkit.core.errors import UsageError
from perfkit.core.parse_units import parse_amount
from perfkit_cli.options.option_values import (
    parse_duration_option,
    parse_memory_option,
    parse_window_option,
    require_one_of,
)

CONTEXT = click.Context(click.Command("test"))
OPTION = click.Option(["--memory-limit"])


@pytest.mark.parametrize(("text", "number"), [("6GiB", 6 * 2**30), ("6GB", 6 * 10**9), ("0", 0)])
def test_an_amount_of_memory_is_what_a_threshold_would_be(text: str, number: int) -> None:
    assert parse_memory_option(CONTEXT, OPTION, text) == number == parse_amount(text, "bytes")


@pytest.mark.parametrize("text", ["", "lots", "-1GB", "5QB", "GiB", "512M", "1048576"])
def test_what_is_no_amount_is_refused_with_the_option_and_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--memory-limit: .*(expected|not an amount)"):
        parse_memory_option(CONTEXT, OPTION, text)


def test_no_amount_given() -> None:
    assert parse_memory_option(CONTEXT, OPTION, None) is None
    assert parse_duration_option(CONTEXT, OPTION, None) is None


def test_a_time() -> None:
    assert parse_duration_option(CONTEXT, OPTION, "2min") == 120.0
    with pytest.raises(UsageError, match=r"^--memory-limit: .*not an amount"):
        parse_duration_option(CONTEXT, OPTION, "soon")


def test_a_name_that_is_not_known_proposes_the_nearest() -> None:
    check = require_one_of("device", ("cpu", "cuda"))
    assert check(CONTEXT, OPTION, "cuda") == "cuda"
    assert check(CONTEXT, OPTION, None) is None
    with pytest.raises(UsageError, match=r"'cdua'.* 'cuda'") as error:
        check(CONTEXT, OPTION, "cdua")
    assert error.value.id == "usage.unknown_device"


def test_a_window_is_two_times() -> None:
    assert parse_window_option(CONTEXT, OPTION, "1.2s:1.25s") == (1.2, 1.25)
    assert parse_window_option(CONTEXT, OPTION, "0:30ms") == (0.0, 0.03)


@pytest.mark.parametrize("text", ["1.2s", "2s:1s", "1s:1s", "1:2", "-1s:2s"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--memory-limit: "):
        parse_window_option(CONTEXT, OPTION, text)
