"""Groups traces by job: a rank has one trace in a job."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import PurePosixPath
from typing import NamedTuple


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
    groups = {index: [index] for index in copies}
    numbers = [origins[index].rank for index in groups if origins[index].rank is not None]
    if len(set(numbers)) == len(numbers):
        return [list(members)]
    for one, other in sorted(combinations(groups, 2), key=lambda pair: _compare(origins[pair[0]], origins[pair[1]])):
        joined, added = groups[one], groups[other]
        ranks = [origins[index].rank for index in (*joined, *added) if origins[index].rank is not None]
        if joined is not added and len(set(ranks)) == len(ranks):
            joined.extend(added)
            groups.update(dict.fromkeys(added, joined))
    distinct = {id(group): group for group in groups.values()}
    return [[copy for index in group for copy in copies[index]] for group in distinct.values()]


def _compare(one: TraceOrigin, other: TraceOrigin) -> tuple[bool, bool, bool, int]:
    """How unlikely two traces are of one job: other folders, versions and names, and the time between them in ns."""
    paths = PurePosixPath(one.path), PurePosixPath(other.path)
    gap_ns = max(0, max(one.start_ns, other.start_ns) - min(one.end_ns, other.end_ns))
    names = [
        path.name if origin.rank is None else re.sub(rf"(?<!\d)0*{origin.rank}(?!\d)", "", path.name, count=1)
        for path, origin in zip(paths, (one, other), strict=True)
    ]
    return paths[0].parent != paths[1].parent, one.version != other.version, names[0] != names[1], gap_ns
