"""docs/cli.md, which is made of the commands and their options."""

import re
from pathlib import Path

import click

from perfkit_cli.main import commands
from perfkit_cli.reference.cli_page import format_cli_page

PAGE = Path(__file__).parents[4] / "docs" / "cli.md"


def test_the_page_in_the_docs_is_that_of_the_commands() -> None:
    assert PAGE.read_text() == format_cli_page(), "write it anew: make docs-reference"


def test_the_page_has_a_section_for_each_command_and_a_row_for_each_option() -> None:
    sections = dict(section.split("\n", 1) for section in format_cli_page().split("\n## perfkit ")[1:])
    context = click.Context(commands)
    assert list(sections) == commands.list_commands(context)
    for name, text in sections.items():
        command = commands.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts:
                pattern = ", ".join(map(re.escape, option.opts))
                assert re.search(rf"^- (`|As above: .*`){pattern}(?![\w-])", text, re.MULTILINE), option.opts


def test_an_option_that_reads_as_an_earlier_one_is_only_named() -> None:
    page = format_cli_page()
    assert page.count("- `-q, --quiet`: Print only the report's path.\n") == 1
    assert page.count("`-q, --quiet`") > 2


def test_indented_lines_below_a_heading_are_code_and_examples_are_left_out() -> None:
    @click.group(epilog="")
    def group() -> None: ...

    @group.command(
        epilog="\b\nExamples:\n  a b   does it\nFiles:\n  c d\nAnd so on.\nExit codes: 0 done,\n1 not.\n\nMore <words>."
    )
    @click.option("--how", type=click.Choice(["x", "y"]), help="What  way.")
    def one(how: str) -> None:
        """Does one."""

    page = format_cli_page(group)
    assert page.endswith("\n\nFiles:\n\n```sh\nc d\n```\n\nAnd so on.\n\nMore <words>.\n")
    assert "does it" not in page
    assert "1 not" not in page
    assert "- `--how [x|y]`: What way." in page
