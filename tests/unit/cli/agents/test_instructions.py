"""The instructions for agents: every command in them parses, and every id and field in them exists."""

import re
import shlex

import click
import pytest

from perfkit.analysis.model.finding import Finding
from perfkit_cli.agents.instructions import AGENTS_FILE, SKILL_FILE
from perfkit_cli.main import COMMANDS, commands
from perfkit_cli.options.json_option import JSON_FLAG
from perfkit_cli.pages.explanations import list_ids
from perfkit_cli.pages.json_schemas import ROOTS

FILES = {path.name: path.read_text(encoding="utf-8") for path in (SKILL_FILE, AGENTS_FILE)}
_COMMAND = re.compile(r"(?:^ *|`)(perfkit [a-z]+(?: [^`\n]*)?)(?:`|$)", re.MULTILINE)
COMMAND_LINES = sorted({line.strip() for text in FILES.values() for line in _COMMAND.findall(text)})
_PLACEHOLDERS = {"ID": "sync.item"}


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_every_command_parses(line: str) -> None:
    _, name, *words = shlex.split(line)
    command = commands.get_command(click.Context(commands), name)
    assert name in COMMANDS
    assert command is not None
    given = [_PLACEHOLDERS.get(word, word) for word in words]
    with command.make_context(name, given) as context:
        assert context.params


def test_there_are_commands_to_measure_verify_and_decide() -> None:
    names = {line.split()[1] for line in COMMAND_LINES}
    assert {"analyze", "run", "bench", "check", "explain", "plan", "advise"} <= names
    assert all(JSON_FLAG in line for line in COMMAND_LINES if line.split()[1] in ("analyze", "run", "bench", "check"))


def test_the_skill_names_fields_that_exist() -> None:
    named = set(re.findall(r"`([a-z_]+)(?:\[\]\.\w+)?`", FILES[SKILL_FILE.name]))
    fields = {*Finding.__struct_fields__, "findings", "active", "low", "high"}
    words = {*list_ids(), *ROOTS, *COMMANDS, "measured", "simulated", "modeled", "bound", "null"}
    assert named <= fields | words


def test_the_skill_has_the_front_matter_that_clients_read() -> None:
    head = FILES[SKILL_FILE.name].split("---")[1]
    assert re.search(r"^name: perfkit$", head, re.MULTILINE)
    assert re.search(r"^description: .{50,500}$", head, re.MULTILINE)
