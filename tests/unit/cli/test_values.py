import click
import pytest

from perfkit.errors import UsageError
from perfkit_cli.values import amount, one_of

CONTEXT = click.Context(click.Command("test"))
OPTION = click.Option(["--memory-limit"])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1048576", 2**20),
        ("512M", 2**29),
        ("512MiB", 2**29),
        ("6GiB", 6 * 2**30),
        ("6 GB", 6 * 2**30),
        ("1.5g", 3 * 2**29),
        ("100B", 100),
        ("2k", 2048),
    ],
)
def test_amounts_of_memory(text: str, number: int) -> None:
    assert amount(CONTEXT, OPTION, text) == number


@pytest.mark.parametrize("text", ["", "lots", "-1G", "1.G", "5Q", "GiB"])
def test_what_is_no_amount_is_refused_with_the_option_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"--memory-limit: .* such as 6GiB"):
        amount(CONTEXT, OPTION, text)


def test_no_amount_given() -> None:
    assert amount(CONTEXT, OPTION, None) is None


def test_a_name_that_is_not_known_proposes_the_nearest() -> None:
    check = one_of("device", ("cpu", "cuda"))
    assert check(CONTEXT, OPTION, "cuda") == "cuda"
    assert check(CONTEXT, OPTION, None) is None
    with pytest.raises(UsageError, match=r"unknown device 'cdua': did you mean 'cuda'"):
        check(CONTEXT, OPTION, "cdua")
