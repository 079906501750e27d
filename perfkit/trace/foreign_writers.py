"""Recognizes traces of other activities than a program's ops and kernels, by categories and names only they have."""

from collections.abc import Iterable
from typing import NamedTuple


class ForeignWriter(NamedTuple):
    """A writer's mark: all of `parts`, each the whole of a category or one of its comma-separated parts, or all of
    `names`; and what the trace is of."""

    what: str
    parts: frozenset[str]
    names: frozenset[str] = frozenset()


# Torch's own are categories of `torch._dynamo.utils.ChromiumEventLogger`, clang's and CMake's of their options.
_WRITERS = (
    ForeignWriter("compile times of torch.compile", frozenset({"dynamo_timed"})),
    ForeignWriter("compile times of clang (-ftime-trace)", frozenset(), frozenset({"ExecuteCompiler", "Frontend"})),
    ForeignWriter("CMake's configuration (--profiling-output)", frozenset({"script", "project"})),
    ForeignWriter("events of a browser (Chrome)", frozenset({"devtools.timeline"})),
    ForeignWriter("events of a browser (Chrome)", frozenset({"toplevel", "blink"})),
)


def find_foreign_content(cats: Iterable[str], names: Iterable[str]) -> str:
    """What a trace is of that shows no program's work; empty where its marks are not known.

    Args:
        cats: categories of events.
        names: names of events, each once.
    """
    parts = {part for cat in cats for part in (cat, *cat.split(","))}
    known = set(names)
    return next(
        (
            writer.what
            for writer in _WRITERS
            if (writer.parts and writer.parts <= parts) or (writer.names and writer.names <= known)
        ),
        "",
    )
