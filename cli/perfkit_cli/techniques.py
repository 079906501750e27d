"""`perfkit techniques`: what can be switched on."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import torch

    from perfkit.techniques.technique import Technique
    from perfkit_cli.listing import Listed

EXAMPLES = """\b
A line reads: name, whether it can act on this machine, what it does, and its parameters with their defaults.
Parameters follow the name: --technique ckpt:mode=selective,offload:what=activations:to=disk
"""


@click.command(epilog=EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the techniques, their parameters, and which of them can act on this machine."""
    import torch

    from perfkit.devices.wanted import find_device
    from perfkit.registry import BrokenPluginError
    from perfkit.techniques.table import TECHNIQUES
    from perfkit_cli.listing import Listed, show

    device = torch.device(find_device("auto").kind)
    items = []
    for name in TECHNIQUES.names():
        try:
            items.append(TECHNIQUES.ask(name, lambda kind: _listed(kind, device)))
        except BrokenPluginError as error:
            items.append(Listed(name=name, broken=str(error)))
    show(items, as_json=as_json)


def _listed(kind: "type[Technique]", device: "torch.device") -> "Listed":
    from perfkit_cli.listing import Listed, parameters

    reason = kind().unavailable(device)
    choice = working_choice(kind, device) if reason is not None else None
    return Listed(
        name=kind.name,
        summary=kind.summary,
        parameters=parameters(kind),
        unavailable=None if reason is None or choice else f"with its defaults, {reason}",
        needs=choice or needs(kind, device.type),
    )


def needs(kind: "type[Technique]", device: str) -> str:
    """What a technique needs besides itself, with its defaults."""
    if kind.min_world_size > 1:
        return f"{kind.min_world_size} ranks"
    return "amp or --dtype bf16" if kind().needs_16_bits(device) else ""


def working_choice(kind: "type[Technique]", device: "torch.device") -> str | None:
    """The first single choice of a parameter, as `to=disk`, with which a technique acts where its defaults do not."""
    import msgspec

    from perfkit_cli.listing import choices

    for field in msgspec.structs.fields(kind):
        for value in choices(kind, field.name):
            if kind(**{field.name: value}).unavailable(device) is None:
                return f"{field.encode_name}={value}"
    return None
