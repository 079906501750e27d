"""`perfkit findings`: lists the kinds of findings."""

from pathlib import Path

import click

from perfkit.core.spec import Struct
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit findings                           all ids, by subject
  perfkit findings --json                    each with its trigger, advice and gain
  perfkit findings --docs docs/findings.md   all, as a Markdown page
\b
`perfkit explain ID` explains one.
\b
Exit codes: 0 done, 2 invalid request.
"""


class ListedFinding(Struct):
    """A kind of finding: when it is reported, what to do, and how its saving is computed.

    `techniques` follow the advice, the first first; those of findings on memory depend on the run and are in them.
    """

    id: str
    severity: str
    trigger: str
    advice: str
    gain: str
    techniques: tuple[str, ...] = ()


class FindingList(Struct):
    """The output of `perfkit findings --json`."""

    findings: tuple[ListedFinding, ...]


@click.command(epilog=EXAMPLES, short_help="List the kinds of findings.")
@add_json_option("the list")
@click.option(
    "--docs",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a Markdown page of all kinds to this file.",
)
def command(as_json: bool, docs: Path | None) -> None:
    """List the kinds of findings by id."""
    from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
    from perfkit_cli.pages.findings_page import format_page

    if docs is not None:
        docs.write_text(format_page())
    elif as_json:
        kinds = {kind.id: kind for subject in SUBJECTS for kind in subject.kinds}
        listed = (ListedFinding(**kind._asdict()) for kind in kinds.values())
        print_json(FindingList(findings=tuple(listed)))
    else:
        for subject in SUBJECTS:
            click.echo(f"{subject.title}:\n  " + "\n  ".join(kind.id for kind in subject.kinds))
