"""What a file states of its recording: its writer, devices and rank."""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_RANK = re.compile(r"(?:rank|worker)[-_ .]?(\d{1,6})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class TraceMetadata:
    """See the fields of the same names of `Trace`. `complete`: whether all of the text could be read."""

    base_ns: int = 0
    devices: dict[int, str] = field(default_factory=dict)
    rank: int | None = None
    world_size: int | None = None
    group_sizes: tuple[int, ...] = ()
    job: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    complete: bool = True


def parse_rank_in_name(source: str) -> int | None:
    """The rank in a file's or folder's name: `rank3.json`, `rank_12/trace.json.gz`, `worker-4...`."""
    for part in reversed(PurePosixPath(source.replace("\\", "/")).parts[-2:]):
        ranks = _RANK.findall(part)
        if ranks:
            return int(ranks[-1])
    return None
