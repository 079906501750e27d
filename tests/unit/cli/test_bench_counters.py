"""The option `--counters` of `perfkit bench`: with and without a word."""

import pytest

from perfkit_cli.bench import command


@pytest.mark.parametrize(
    ("words", "counters"),
    [([], False), (["--counters"], "ncu"), (["--counters", "ncu"], "ncu"), (["--counters", "pm"], "pm")],
)
def test_what_is_asked_for(words: list[str], counters: bool | str) -> None:
    assert command.make_context("bench", [*words, "--quiet"]).params["counters"] == counters
