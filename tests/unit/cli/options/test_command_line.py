"""The command line as records show it."""

import sys

import pytest

from perfkit_cli.options.command_line import get_command_line


def test_it_is_what_was_typed_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/perfkit", "bench", "-w", "a b.py:build:api_key=q7Zr2", "--steps", "9"])
    assert get_command_line() == "perfkit bench -w 'a b.py:build:api_key=REDACTED' --steps 9"
