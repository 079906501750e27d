"""`perfkit mfu`: its tables and its JSON."""

import json

from click.testing import CliRunner, Result

from perfkit_cli.main import commands

LLAMA = ("llama-3-8b", "--seq", "8192", "--tokens-per-s", "2904", "--gpu", "a100-80g")


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["mfu", *arguments])


def test_each_convention_has_a_line_with_its_formula() -> None:
    lines = _invoke(*LLAMA).output.splitlines()
    (palm,) = [line for line in lines if line.startswith("PaLM  ")]
    assert palm.split("  ")[-1] == "6N + 12LHQT"
    assert "56.8 %" in palm
    assert "28.4 %" in palm
    (term,) = [line for line in lines if line.startswith("N  ")]
    assert "8,030,261,248" in term
    assert max(map(len, lines)) <= 100


def test_a_model_alone_has_flops_and_no_shares() -> None:
    output = _invoke("llama-3-8b", "--seq", "8192").output
    assert "57.91" in output
    assert " %" not in output


def test_markdown() -> None:
    output = _invoke(*LLAMA, "--markdown", "--claimed", "56.8%").output
    assert "| PaLM | 56.8 % | 28.4 % | 177.3 | 61.07 | 6N + 12LHQT |" in output
    assert "| PaLM | 6N + 12LHQT | 56.84 % |" in output


def test_a_mistake_and_the_figure_without_it() -> None:
    output = _invoke(*LLAMA, "--claimed", "28.42%").output
    (line,) = [line for line in output.splitlines() if line.startswith("PaLM  ") and "2:4" in line]
    assert line.endswith("56.84 %")


def test_what_nothing_explains_is_said() -> None:
    ended = _invoke(*LLAMA, "--claimed", "99.99%")
    assert ended.exit_code == 0
    assert "off by" in ended.output


def test_verbose_has_users_and_peaks() -> None:
    output = _invoke(*LLAMA, "-v").output
    assert "nanochat" in output
    assert "tf32" in output


def test_json() -> None:
    audit = json.loads(_invoke(*LLAMA, "--claimed", "56.8%", "--json").output)
    assert audit["claim"]["matches"][0]["convention"] == "palm"
    assert audit["peak"]["dense"] == 312e12


def test_a_wrong_request_says_what_is_missing() -> None:
    ended = _invoke("llama-3-8b", "--claimed", "40%")
    assert ended.exit_code == 2
    assert "--tokens-per-s" in ended.output
    assert _invoke("no-such-model").exit_code == 2
