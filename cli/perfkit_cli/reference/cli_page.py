"""Renders the page of all commands, `docs/cli.md`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from itertools import groupby, zip_longest
from textwrap import dedent

import click

from perfkit_cli.main import commands

EXAMPLES = "Examples:"
EXIT_CODES = re.compile(r"^Exit codes: (?:.+\n?)+", re.MULTILINE)
_CLI_INTRO = """\
# Command reference

<!-- Written by `make docs-reference`. -->

`perfkit --debug COMMAND ...` or `PERFKIT_DEBUG=1` shows the traceback of an error. Progress goes to standard error,
results to standard output. `perfkit COMMAND --help` also shows examples.

The first line of an error ends in its stable id: `Error: unknown command 'benhc' [usage.unknown_command]`. With
`--json`, standard output is then `{"error": {"id": ..., "message": ...}}`, with the same exit code.

| exit code | meaning |
|---|---|
| 0 | Success. Skipped techniques are no failure. `perfkit run` ends with the script's own code. |
| 1 | A run failed, crashed, ran out of memory or time, or had a non-finite loss; or a check found a regression. |
| 2 | The request is invalid, or a file cannot be read. |
| 3 | `perfkit check`, `perfkit bench`: nothing was compared, or nothing is decided. |
| 130 | Interrupted (Ctrl-C). Completed measurements and their report are kept. |
| 143 | Terminated (SIGTERM). The same. |
"""


def format_cli_page(group: click.Group = commands) -> str:
    """All commands with their options, as Markdown."""
    context = click.Context(group, info_name="perfkit", **group.context_settings)
    named = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    known = [(name, command) for name, command in named if command is not None]
    links = ", ".join(f"[{name}](#perfkit-{name})" for name, _ in known)
    sections = list(_format_commands(known, context))
    return "\n".join([_CLI_INTRO, f"Commands: {links}", "", *sections])


def _format_commands(commands: Iterable[tuple[str, click.Command]], parent: click.Context) -> Iterator[str]:
    """A section for each command. An option that reads as one of an earlier command is only named."""
    explained: set[tuple[str, str]] = set()
    for name, command in commands:
        context = click.Context(command, info_name=name, parent=parent)
        yield from (f"## {context.command_path}", "")
        yield from ("```", f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}", "```", "")
        yield from _format_text(cleandoc(command.help or ""))
        records = _list_options(command, context)
        yield from (f"- `{names}`: {meaning}" for names, meaning in records if (names, meaning) not in explained)
        repeated = [f"`{names}`" for names, meaning in records if (names, meaning) in explained]
        if repeated:
            yield f"- As above: {', '.join(repeated)}"
        explained.update(records)
        yield ""
        yield from _format_text(command.epilog or "")


def _list_options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Names and meanings of a command's options, each in one line."""
    records = [
        record
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        and "--help" not in parameter.opts
        and (record := parameter.get_help_record(context)) is not None
    ]
    return [(" ".join(names.split()), " ".join(meaning.split()).replace("<", "&lt;")) for names, meaning in records]


def _format_text(text: str) -> Iterator[str]:
    """Paragraphs of a help text; indented lines below a heading are code.

    Examples are left to `--help`, and exit codes to the introduction.
    """
    for paragraph in re.split(r"\n\s*\n", EXIT_CODES.sub("", text.replace("\b\n", ""))):
        for is_code, group in groupby(_pair_with_heading(paragraph.strip().splitlines()), key=lambda line: line[0]):
            lines = [line for _, heading, line in group if heading != EXAMPLES]
            if lines:
                yield from ("```sh", dedent("\n".join(lines)), "```", "") if is_code else ("\n".join(lines), "")


def _pair_with_heading(lines: Sequence[str]) -> Iterator[tuple[bool, str, str]]:
    """Each line with whether it is code, and the heading that it is or stands below; "" for text."""
    heading = ""
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        is_code = bool(heading) and line.startswith("  ")
        if not is_code:
            heading = line if following.startswith("  ") else ""
        yield is_code, heading, line
