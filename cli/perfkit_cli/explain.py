"""`perfkit explain`: explains a stable id."""

import click

from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit explain fusion.elementwise     a finding: trigger, evidence, fix, how its gain is computed
  perfkit explain ranks.missing          a note
  perfkit explain skip.no_gpu            why a variant was skipped
  perfkit explain usage.no_file          an error
  perfkit explain claim.amp.matmul_flops_share   a claim of a technique
  perfkit explain inconclusive           a verdict
\b
Exit codes: 0 done, 2 unknown id.
"""


@click.command(epilog=EXAMPLES, short_help="Explain a finding, note, error, claim or verdict by id.")
@click.argument("id", metavar="ID")
@add_json_option("the explanation")
def command(id: str, as_json: bool) -> None:
    """Explain an id of JSON, a report or an error: when it is reported, on what evidence, what to do, and its limits.

    `perfkit findings` lists the ids of findings; docs/ids.md has all others.
    """
    from perfkit_cli.pages.explanations import explain_id, format_explanation

    explanation = explain_id(id)
    if as_json:
        print_json(explanation)
    else:
        click.echo(format_explanation(explanation))
