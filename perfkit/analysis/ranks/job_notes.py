"""Names the jobs among traces, and says that there are several."""

import re
from collections.abc import Sequence
from os.path import commonprefix
from pathlib import PurePosixPath

from perfkit.core.note import Note, make_note


def name_jobs(paths: Sequence[Sequence[str]]) -> list[str]:
    """A name for each job by the paths of its traces: its folder, else what begins its files' names; empty for one."""
    if len(paths) == 1:
        return [""]
    folders = [{PurePosixPath(path).parent.name for path in job} for job in paths]
    if len(set().union(*folders)) == sum(map(len, folders)) == len(paths):
        return [next(iter(folder)) for folder in folders]
    begins = [_find_common_beginning([PurePosixPath(path).name for path in job]) for job in paths]
    if all(begins) and len(set(begins)) == len(begins):
        return begins
    return [f"job {number}" for number in range(1, len(paths) + 1)]


def _find_common_beginning(names: Sequence[str]) -> str:
    begin = commonprefix(list(names))  # noqa: RUF071 (of names)
    return re.sub(r"[-_. ]*(?:rank|worker)?[-_. ]*\d*$", "", begin, flags=re.IGNORECASE)


def describe_jobs(names: Sequence[str], counts: Sequence[int]) -> Note:
    """The note on several jobs, with the number of traces of each."""
    listed = ", ".join(
        f"{name} ({count} trace{'s' if count > 1 else ''})" for name, count in zip(names, counts, strict=True)
    )
    text = f"the traces are of {len(names)} jobs: {listed}; ranks are compared within each"
    return make_note("trace.several_jobs", text, jobs=len(names), traces=sum(counts))
