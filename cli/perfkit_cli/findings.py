"""`perfkit findings`: lists the kinds of findings, each with its trigger and advice."""

import json
from pathlib import Path

import click

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit_cli.options.json_option import add_json_option

EXAMPLES = """\b
Examples:
  perfkit findings                           all ids, by subject
  perfkit findings fusion.elementwise        one: trigger, advice, how the gain is computed
  perfkit findings ranks.missing             the meaning of a note
  perfkit findings --docs docs/findings.md   all, as a Markdown page
\b
Exit codes: 0 done, 2 invalid request.
"""


@click.command(epilog=EXAMPLES)
@click.argument("finding_id", metavar="[ID]", required=False)
@add_json_option("the list")
@click.option(
    "--docs",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a Markdown page of all kinds to this file.",
)
def command(finding_id: str | None, as_json: bool, docs: Path | None) -> None:
    """List findings by id, or explain one id."""
    from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
    from perfkit.core.error_kinds import ERROR_KINDS
    from perfkit.core.note_kinds import NOTE_KINDS
    from perfkit_cli.pages.findings_page import format_kind, format_page

    kinds = {kind.id: kind for subject in SUBJECTS for kind in subject.kinds}
    if docs is not None and finding_id is not None:
        raise UsageError(f"--docs writes the page of all findings; omit {finding_id}", id="usage.conflict")
    meanings = NOTE_KINDS | ERROR_KINDS
    if finding_id is not None and finding_id not in kinds | meanings:
        raise make_unknown_name_error("id", finding_id, kinds | meanings)
    if docs is not None:
        docs.write_text(format_page())
    elif finding_id in meanings:
        meaning = {"id": finding_id, "meaning": meanings[finding_id]}
        click.echo(json.dumps([meaning], indent=2) if as_json else "{id}\n  meaning  {meaning}".format(**meaning))
    elif as_json:
        chosen = [kinds[name]._asdict() for name in ([finding_id] if finding_id else kinds)]
        click.echo(json.dumps(chosen, indent=2))
    elif finding_id is not None:
        click.echo(format_kind(kinds[finding_id]))
    else:
        for subject in SUBJECTS:
            click.echo(f"{subject.title}:\n  " + "\n  ".join(kind.id for kind in subject.kinds))
