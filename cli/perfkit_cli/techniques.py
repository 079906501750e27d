"""`perfkit techniques`: what can be switched on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfkit.errors import UsageError

if TYPE_CHECKING:
    import torch

    from perfkit.techniques.technique import Technique
    from perfkit_cli.listing import Listed

EXAMPLES = """\b
A line reads: name, whether it can act on this machine, what it does, and its parameters with their defaults.
Parameters follow the name: --technique ckpt:mode=selective,offload:what=activations:to=disk
\b
Examples:
  perfkit techniques                 all, a line each
  perfkit techniques ckpt            all about one: parameters, what is checked, when it helps, its paper
  perfkit techniques --docs pages    these pages as files
"""


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--docs",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the page of each and an index into this folder, as Markdown.",
)
def command(name: str | None, as_json: bool, docs: Path | None) -> None:
    """List the techniques, their parameters, and which of them can act on this machine; or print the page of one."""
    import torch

    from perfkit.devices.wanted import find_device
    from perfkit.techniques.table import TECHNIQUES
    from perfkit_cli.listing import show
    from perfkit_cli.technique_page import page

    if docs is not None and name is not None:
        raise UsageError(f"--docs writes the pages of all techniques: leave out {name}")
    device = torch.device(find_device("auto").kind)
    if docs is not None:
        _write_pages(docs)
    elif name is None or as_json:
        show([_asked(each, device) for each in ([name] if name else TECHNIQUES.names())], as_json=as_json)
    else:
        about = TECHNIQUES.ask(name, page)
        click.echo(f"{about}\nOn this machine: {_availability(_asked(name, device))}")


def _write_pages(folder: Path) -> None:
    from perfkit.techniques.table import TECHNIQUES
    from perfkit_cli.technique_page import index, page

    folder.mkdir(parents=True, exist_ok=True)
    pages = {}
    for name in TECHNIQUES.names():
        try:
            pages[name] = TECHNIQUES.ask(name, page)
        except UsageError as error:
            click.echo(f"without a page: {error}", err=True)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "index.md").write_text(index(map(TECHNIQUES.load, pages)))


def _asked(name: str, device: "torch.device") -> "Listed":
    """A technique as it is listed; `broken` where another package's cannot be had."""
    from perfkit.registry import BrokenPluginError
    from perfkit.techniques.table import TECHNIQUES
    from perfkit_cli.listing import Listed

    try:
        return TECHNIQUES.ask(name, lambda kind: _listed(kind, device))
    except BrokenPluginError as error:
        return Listed(name=name, broken=str(error))


def _availability(item: "Listed") -> str:
    if item.unavailable is not None:
        return f"unavailable: {item.unavailable}"
    return f"needs {item.needs}" if item.needs else "available"


def _listed(kind: "type[Technique]", device: "torch.device") -> "Listed":
    from perfkit.techniques.technique import cannot_act
    from perfkit_cli.listing import Listed, parameters

    reason = cannot_act(kind(), device)
    choice = working_choice(kind, device) if reason is not None else None
    return Listed(
        name=kind.name,
        summary=kind.summary,
        parameters=parameters(kind),
        unavailable=None if reason is None or choice else f"with its defaults, {reason}",
        needs=choice or needs(kind, device.type),
        when=kind.when,
        paper=kind.paper,
    )


def needs(kind: "type[Technique]", device: str) -> str:
    """What a technique needs besides itself, with its defaults."""
    if kind.min_world_size > 1:
        return f"{kind.min_world_size} ranks"
    return "amp or --dtype bf16" if kind().needs_16_bits(device) else ""


def working_choice(kind: "type[Technique]", device: "torch.device") -> str | None:
    """The first single choice of a parameter, as `to=disk`, with which a technique acts where its defaults do not."""
    import msgspec

    from perfkit.techniques.technique import cannot_act
    from perfkit_cli.listing import choices

    for field in msgspec.structs.fields(kind):
        for value in choices(kind, field.name):
            if cannot_act(kind(**{field.name: value}), device) is None:
                return f"{field.encode_name}={value}"
    return None
