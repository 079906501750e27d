"""`--json` on every command, and the exit codes that its help documents."""

import re

import click
import pytest
from click.testing import CliRunner

from perfkit_cli.main import COMMANDS, commands
from perfkit_cli.options.json_option import JSON_FLAG


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_json(name: str) -> None:
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    [option] = [parameter for parameter in command.params if JSON_FLAG in parameter.opts]
    assert option.name == "as_json"
    assert isinstance(option, click.Option)
    assert option.is_flag


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_documents_its_exit_codes(name: str) -> None:
    printed = " ".join(CliRunner().invoke(commands, [name, "--help"]).output.split())
    assert re.search(r"Exit codes: (0 |the script's own)", printed)
