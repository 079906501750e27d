"""`perfkit schema`: prints the JSON Schemas of perfkit's files and outputs."""

import click

from perfkit.core.errors import make_unknown_name_error
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit schema                 all names, with what they describe
  perfkit schema analysis        the schema of analysis.json and of `perfkit analyze --json`
\b
Exit codes: 0 done, 2 unknown name.
"""


@click.command(epilog=EXAMPLES, short_help="Print the JSON Schema of a file or an output.")
@click.argument("name", metavar="[NAME]", required=False)
@add_json_option("the list")
def command(name: str | None, as_json: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of a file or of a command's --json; without NAME, list them.

    Schemas are made of the types that the files are written from. Their `$id` ends in the version of the format.
    """
    from perfkit_cli.output.listing import align_columns
    from perfkit_cli.pages.json_schemas import ROOTS, build_schema

    if name is not None:
        if name not in ROOTS:
            raise make_unknown_name_error("schema", name, ROOTS)
        print_json(build_schema(name))
    elif as_json:
        print_json({"schemas": [{"name": known, "content": root.content} for known, root in ROOTS.items()]})
    else:
        for line in align_columns([(known, root.content) for known, root in ROOTS.items()]):
            click.echo(line)
