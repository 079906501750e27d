"""What `perfkit plan` says, and what it refuses."""

import json

import pytest
from click.testing import CliRunner

from perfkit_cli.main import commands

SMALL = ["plan", "-w", "gpt:size=nano:seq_len=16"]


def test_a_row_says_the_peak_and_what_it_is_made_of() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "accum"])
    assert ended.exit_code == 0, ended.output
    _, baseline, accum = ended.stdout.splitlines()
    assert baseline.startswith("baseline")
    assert " MiB" in accum
    assert "optimizer state" in accum


def test_what_cannot_act_is_not_known_with_the_reason() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "tf32", "--json"])
    (tf32,) = json.loads(ended.stdout)["variants"]
    assert tf32["peak_allocated_bytes"] is None
    assert "TF32" in tf32["reason"]


def test_what_is_planned_otherwise_than_it_runs_is_said_once() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "compile,amp+compile"])
    (said,) = [line for line in ended.stdout.splitlines() if "eagerly" in line]
    assert said.startswith("compile, amp+compile: compile: planned as it runs eagerly, an upper bound")


@pytest.mark.parametrize(("technique", "message"), [("batch:auto", "a plan is of given sizes"), ("apm", "amp")])
def test_requests_that_are_wrong(technique: str, message: str) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", technique])
    assert ended.exit_code == 2
    assert message in ended.output
