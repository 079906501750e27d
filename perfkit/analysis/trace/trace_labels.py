"""Labels of traces: as short as is unique."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.trace import RankTrace
from perfkit.trace.readers.trace_sources import derive_trace_name


def _name_with_folder(path: str) -> str:
    return f"{PurePosixPath(path).parent.name}/{derive_trace_name(path)}"


def _name_with_path(path: str) -> str:
    return path


# The shortest first; files of one name lie in folders of different names, or at least at different places.
_NAMES: tuple[Callable[[str], str], ...] = (derive_trace_name, _name_with_folder, _name_with_path)


class NamedTrace(NamedTuple):
    """What a trace is labeled after."""

    label: str
    path: str
    rank: int | None


def label_traces(traces: Sequence[RankTrace]) -> tuple[RankTrace, ...]:
    """Label the traces uniquely: see `make_unique_labels`."""
    labels = make_unique_labels([NamedTrace(trace.label, trace.file_info.path, trace.rank) for trace in traces])
    return tuple(
        trace if trace.label == label else replace(trace, label=label)
        for trace, label in zip(traces, labels, strict=True)
    )


def make_unique_labels(traces: Sequence[NamedTrace]) -> list[str]:
    """A label for each: files of equal rank or name also show their place."""
    labels = [trace.label for trace in traces]
    for name in _NAMES:
        shared = {label for label, count in Counter(labels).items() if count > 1}
        labels = [
            _make_longer_label(trace, name) if label in shared else label
            for trace, label in zip(traces, labels, strict=True)
        ]
    seen: Counter[str] = Counter()
    for place, label in enumerate(labels):  # one file given twice
        seen[label] += 1
        labels[place] = label if seen[label] == 1 else f"{label} ({seen[label]})"
    return labels


def label_sides(after: RankTrace, before: RankTrace) -> tuple[RankTrace, RankTrace]:
    """Label two compared traces with their file names; both may be of one rank."""
    paths = [trace.file_info.path for trace in (after, before)]
    name = next((name for name in _NAMES if len(set(map(name, paths))) == len(paths)), _name_with_path)
    after, before = label_traces([replace(trace, label=name(trace.file_info.path)) for trace in (after, before)])
    return after, before


def _make_longer_label(trace: NamedTrace, name: Callable[[str], str]) -> str:
    where = name(trace.path)
    return where if trace.rank is None else f"rank {trace.rank} ({where})"
