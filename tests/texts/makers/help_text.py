"""`--help` of every command, as a terminal of a fixed width shows it."""

import click
from click.testing import CliRunner

from perfkit_cli.main import COMMANDS, commands


def build_help(width: int) -> dict[str, str]:
    """A file for `perfkit` itself and one for each command."""
    files = {"help/perfkit.txt": _invoke("--help", width=width)}
    for name in COMMANDS:
        pages = [_invoke(*path, "--help", width=width) for path in _list_subcommands(name)]
        files[f"help/{name}.txt"] = "\n".join(pages)
    return files


def _list_subcommands(name: str) -> list[tuple[str, ...]]:
    command = commands.get_command(click.Context(commands), name)
    inner = list(command.commands) if isinstance(command, click.Group) else []
    return [(name,), *((name, each) for each in inner)]


def _invoke(*arguments: str, width: int) -> str:
    result = CliRunner().invoke(commands, arguments, prog_name="perfkit", terminal_width=width)
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"
