"""`perfkit techniques`: lists the techniques, their parameters, and which are available here."""

from pathlib import Path
from shutil import get_terminal_size

import click

from perfkit.core.errors import UsageError
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Columns: name, availability on this machine, effect (parameters), reason if unavailable.
Parameters follow the name: --technique ckpt:mode=selective,offload:what=activations:to=disk
\b
Examples:
  perfkit techniques                 all, by purpose
  perfkit techniques ckpt            one: parameters, checks, use, paper
  perfkit techniques --docs pages    these pages as files
\b
Exit codes: 0 done, 2 no such technique.
"""

_MOST_COLUMNS = 120  # longer lines are hard to read


@click.command(epilog=EXAMPLES, short_help="List the training techniques.")
@click.argument("name", metavar="[TECHNIQUE]", required=False)
@add_json_option("the list")
@click.option(
    "--docs",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a Markdown page per technique and an index to this folder.",
)
def command(name: str | None, as_json: bool, docs: Path | None) -> None:
    """List the techniques, their parameters, and which are available on this machine; or print the page of one."""
    import torch

    from perfkit.devices.machine.device_choice import find_device
    from perfkit.techniques.base.table import TECHNIQUES
    from perfkit_cli.output.listing import TechniqueList
    from perfkit_cli.pages.technique_listing import describe_availability, format_listing, list_technique
    from perfkit_cli.pages.technique_page import build_page

    if docs is not None and name is not None:
        raise UsageError(f"--docs writes the pages of all techniques; omit {name}", id="usage.conflict")
    device = torch.device(find_device("auto").kind)
    if docs is not None:
        write_pages(docs)
    elif as_json:
        names = [name] if name else TECHNIQUES.list_names()
        print_json(TechniqueList(techniques=tuple(list_technique(technique, device) for technique in names)))
    elif name is None:
        width = min(get_terminal_size((80, 24)).columns, _MOST_COLUMNS)
        rows = [list_technique(technique, device) for technique in TECHNIQUES.list_names()]
        click.echo("\n".join(format_listing(rows, width)))
    else:
        about = TECHNIQUES.ask_object(name, build_page)
        click.echo(f"{about}\nOn this machine: {describe_availability(list_technique(name, device))}")


def write_pages(folder: Path) -> None:
    """Write the page of each technique and an index into a folder."""
    from perfkit.techniques.base.table import TECHNIQUES
    from perfkit_cli.pages.technique_page import build_index, build_page

    folder.mkdir(parents=True, exist_ok=True)
    pages = {}
    for name in TECHNIQUES.list_names():
        try:
            pages[name] = TECHNIQUES.ask_object(name, build_page)
        except UsageError as error:
            click.echo(f"no page: {error}", err=True)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "index.md").write_text(build_index(map(TECHNIQUES.load, pages)))
