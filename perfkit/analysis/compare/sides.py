"""The runs of a comparison: what was loaded of each, and their names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as with_fields

from perfkit.analysis.model.comparison import ComparedRun
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.urls import is_url

# Separates a suite's folder from one of its variants.
AT = "@"


@dataclass(frozen=True)
class LoadedSide:
    """A side before it is named, with its variant if it is one.

    `variants` are all of a suite that was named as a whole. `ranks` are the traces of all its ranks that keep every
    row, and `straggler` is the label of the one that the others wait for, if one stands out.
    """

    side: ComparedRun
    variant: Variant | None = None
    variants: tuple[Variant, ...] = ()
    ranks: tuple[RankTrace, ...] = ()
    straggler: str = ""


def name_sides(loaded: Sequence[LoadedSide]) -> tuple[LoadedSide, ...]:
    """Name each side as briefly as is unique: the last parts of its path, and its variant."""
    paths = [entry.side.path for entry in loaded]
    depth = 1
    while depth < 8 and len({_shorten_path(path, depth) for path in paths}) < len(set(paths)):
        depth += 1
    names = [
        _shorten_path(entry.side.path, depth) + (f"{AT}{entry.side.subject}" if entry.side.subject else "")
        for entry in loaded
    ]
    numbered = (
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    )
    return tuple(
        replace(entry, side=_rename_side(entry.side, name)) for entry, name in zip(loaded, numbered, strict=True)
    )


def _rename_side(side: ComparedRun, name: str) -> ComparedRun:
    trace = None if side.trace is None else with_fields(side.trace, label=name, timelines=())
    return with_fields(side, name=name, trace=trace)


def _shorten_path(path: str, depth: int) -> str:
    parts: Iterable[str] = path.rstrip("/").split("/") if is_url(path) else Path(path).absolute().parts
    return "/".join(list(parts)[-depth:])
