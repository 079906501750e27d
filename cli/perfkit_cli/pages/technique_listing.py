"""The listing of `perfkit techniques`: by group, with whether each is available on this machine and why not."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
import torch

from perfkit.core.registry import BrokenPluginError
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import Purpose, Technique, explain_inability
from perfkit_cli.output.listing import ListedItem, describe_parameters, list_choices


def list_technique(name: str, device: torch.device) -> ListedItem:
    """A technique as it is listed; `broken` where another package's cannot be had."""
    try:
        return TECHNIQUES.ask_object(name, lambda kind: _describe_technique(kind, device))
    except BrokenPluginError as error:
        return ListedItem(name=name, group=Purpose.OTHERS, broken=str(error))


def describe_availability(item: ListedItem) -> str:
    """Its availability on this machine, in words."""
    if item.unavailable is not None:
        return f"unavailable: {item.unavailable}"
    return f"needs {item.needs}" if item.needs else "available"


def format_listing(items: Sequence[ListedItem], width: int) -> Iterator[str]:
    """Format the listing in `width` columns: the groups in order, each with its techniques."""
    names = max(len(item.name) for item in items)
    for group, members in groupby(sorted(items, key=_get_listing_key), key=lambda item: item.group):
        yield f"{group}:"
        for item in members:
            first = f"  {item.name:{names}}  {_format_available(item):3}  "
            rest = " " * len(first)
            for number, text in enumerate(_build_paragraphs(item)):
                start = rest if number else first
                yield from textwrap.wrap(
                    text, width, initial_indent=start, subsequent_indent=rest, break_on_hyphens=False
                )
        yield ""


def describe_needs(kind: type[Technique], device: str) -> str:
    """The requirements of a technique besides itself, with its defaults."""
    if kind.min_world_size > 1:
        return f"{kind.min_world_size} ranks"
    return "amp or --dtype bf16" if kind().needs_16_bits(device) else ""


def find_unavailable_choices(kind: type[Technique], device: torch.device) -> dict[str, str]:
    """The reason why a parameter's choice, such as `backend=liger`, is unavailable here; empty for available ones."""
    return {
        f"{field.encode_name}={value}": explain_inability(kind(**{field.name: value}), device) or ""
        for field in msgspec.structs.fields(kind)
        for value in list_choices(kind, field.name)
    }


def _describe_technique(kind: type[Technique], device: torch.device) -> ListedItem:
    reason = explain_inability(kind(), device)
    reasons = find_unavailable_choices(kind, device)
    choice = next((choice for choice, lack in reasons.items() if not lack), "") if reason is not None else ""
    defaults = "with its defaults, " if describe_parameters(kind) else ""
    return ListedItem(
        name=kind.name,
        group=kind.purpose,
        summary=kind.summary,
        parameters=describe_parameters(kind),
        unavailable=None if reason is None or choice else f"{defaults}{reason}",
        unavailable_choices={name: lack for name, lack in reasons.items() if lack and lack != reason},
        needs=choice or describe_needs(kind, device.type),
        when=kind.when,
        paper=kind.paper,
    )


def _get_listing_key(item: ListedItem) -> tuple[int, int]:
    place = 0 if item.broken is not None else TECHNIQUES.load(item.name).purpose_place
    return [*Purpose].index(Purpose(item.group)), place


def _format_available(item: ListedItem) -> str:
    return "no" if item.unavailable is not None or item.broken is not None else "yes"


def _build_paragraphs(item: ListedItem) -> Iterator[str]:
    """Paragraphs of a technique: effect, parameters, requirements, and missing packages."""
    if item.broken is not None:
        yield f"broken: {item.broken}"
        return
    yield item.summary
    if item.parameters:
        yield "  ".join(
            f"{name}={text.partition(' ')[0].replace('|', ' | ')}" for name, text in item.parameters.items()
        )
    if item.needs or item.unavailable is not None:
        yield describe_availability(item)
    for reason, values in _group_by_reason(item.unavailable_choices).items():
        yield f"not {', '.join(values)}: {reason}"


def _group_by_reason(reasons: dict[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for choice, reason in reasons.items():
        groups.setdefault(reason, []).append(choice)
    return groups
