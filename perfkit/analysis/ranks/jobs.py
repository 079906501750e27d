"""Groups traces by job: a rank has one trace in a job."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from perfkit.trace.model import Ints


class TraceOrigin(NamedTuple):
    """What tells the jobs of traces apart.

    `job` is what the file states of its job, equal for all ranks (world size, backend, process group of all ranks);
    empty without. `version` is that of the backend, in which few jobs differ between ranks. `start_ns` and `end_ns` are
    by the clock of its host, since 1970 if `has_date`. `content` is equal for copies, `trace_id` may be for all ranks
    of a recording.
    """

    path: str
    rank: int | None
    job: str
    start_ns: int
    end_ns: int
    content: int = 0
    has_date: bool = False
    trace_id: str = ""
    version: str = ""


# Clocks of hosts agree better, and ranks are recorded together.
_APART_NS = 60_000_000_000


def group_jobs(origins: Sequence[TraceOrigin]) -> list[list[int]]:
    """The traces of each job by index, the job with most ranks first.

    Traces whose files state different jobs are of different ones, and so are those recorded a minute apart. Where ranks
    still occur several times, those in one folder, of one version, of one name but for the rank, or recorded at the
    same time belong together. Copies of a trace stay in its job.
    """
    stated: dict[str, list[int]] = {}
    for index, origin in enumerate(origins):
        stated.setdefault(origin.job, []).append(index)
    unknown = stated.pop("", [])
    if len(stated) == 1:
        next(iter(stated.values())).extend(unknown)
    elif unknown:
        stated[""] = unknown
    jobs = [
        sorted(job)
        for members in stated.values()
        for recorded in _split_by_id(origins, sorted(members))
        for together in _split_by_date(origins, recorded)
        for job in _split_recordings(origins, together)
    ]
    return sorted(jobs, key=lambda job: (-len(job), job))


def _split_by_id(origins: Sequence[TraceOrigin], members: Sequence[int]) -> list[list[int]]:
    """Traces of one id together, where several ranks share each."""
    by_id: dict[str, list[int]] = {}
    for index in members:
        by_id.setdefault(origins[index].trace_id, []).append(index)
    shared = all(len({origins[index].rank for index in same}) > 1 for same in by_id.values())
    return list(by_id.values()) if shared and "" not in by_id else [list(members)]


def _split_by_date(origins: Sequence[TraceOrigin], members: Sequence[int]) -> list[list[int]]:
    if not all(origins[index].has_date for index in members):
        return [list(members)]
    groups: list[list[int]] = []
    end_ns = 0
    for index in sorted(members, key=lambda index: origins[index].start_ns):
        if not groups or origins[index].start_ns - end_ns > _APART_NS:
            groups.append([])
        groups[-1].append(index)
        end_ns = max(end_ns, origins[index].end_ns)
    return [sorted(group) for group in groups]


def _split_recordings(origins: Sequence[TraceOrigin], members: Sequence[int]) -> list[list[int]]:
    first: dict[tuple[int | None, int], int] = {}
    copies: dict[int, list[int]] = {}
    for index in members:
        origin = origins[index]
        chosen = first.setdefault((origin.rank, origin.content), index)
        copies.setdefault(chosen if origin.rank is not None else index, []).append(index)
    if _has_distinct_ranks(origins, list(copies)):
        return [list(members)]
    units = _join_alike(origins, list(copies))
    groups = [unit.members for unit in units]
    for one, other in sorted(
        combinations(range(len(units)), 2), key=lambda pair: _compare(*(units[at] for at in pair))
    ):
        joined, added = groups[one], groups[other]
        if joined is not added and _has_distinct_ranks(origins, (*joined, *added)):
            joined.extend(added)
            groups = [joined if group is added else group for group in groups]
    distinct = {id(group): group for group in groups}
    return [[copy for index in group for copy in copies[index]] for group in distinct.values()]


class _Unit(NamedTuple):
    """Files of one folder, version and name but for the rank (`place`), with their times."""

    members: list[int]
    place: tuple[PurePosixPath, str, str]
    start_ns: Ints
    end_ns: Ints


def _join_alike(origins: Sequence[TraceOrigin], members: Sequence[int]) -> list[_Unit]:
    """The files of one place together, unless ranks repeat there: to compare all pairs of thousands would take long."""
    alike: dict[tuple[PurePosixPath, str, str], list[int]] = {}
    for index in members:
        alike.setdefault(_describe_place(origins[index]), []).append(index)
    return [
        _Unit(
            unit,
            place,
            np.asarray([origins[index].start_ns for index in unit]),
            np.asarray([origins[index].end_ns for index in unit]),
        )
        for place, same in alike.items()
        for unit in ([same] if _has_distinct_ranks(origins, same) else [[index] for index in same])
    ]


def _has_distinct_ranks(origins: Sequence[TraceOrigin], members: Sequence[int]) -> bool:
    ranks = [origins[index].rank for index in members if origins[index].rank is not None]
    return len(set(ranks)) == len(ranks)


def _describe_place(origin: TraceOrigin) -> tuple[PurePosixPath, str, str]:
    """The folder, the version, and the name without the rank."""
    path, number = PurePosixPath(origin.path), rf"(?<!\d)0*{origin.rank}(?!\d)"
    return path.parent, origin.version, path.name if origin.rank is None else re.sub(number, "", path.name, count=1)


def _compare(one: _Unit, other: _Unit) -> tuple[bool, bool, bool, int]:
    """How unlikely two units are of one job: other folders, versions and names, and the least time between in ns."""
    folder, version, name = (mine != its for mine, its in zip(one.place, other.place, strict=True))
    gaps = (
        np.maximum(other.start_ns, start_ns) - np.minimum(other.end_ns, end_ns)
        for start_ns, end_ns in zip(one.start_ns, one.end_ns, strict=True)
    )
    return folder, version, name, max(0, min(int(gap.min()) for gap in gaps))
