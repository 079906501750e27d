"""A node's part of a run on a Ray cluster: an actor starts its ranks as processes, reports on them, and returns their
files."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from perfkit.core.files import write_json
from perfkit.core.spec import RunSpec
from perfkit.measure.launch.network import build_gloo_variables
from perfkit.measure.launch.process_output import Deadline, read_lines
from perfkit.measure.launch.rank_processes import (
    COMPILE_CACHE,
    RankPlace,
    RankProcess,
    end_ranks,
    kill_ranks,
    start_rank,
)
from perfkit.store.layout import SPEC_FILE

if TYPE_CHECKING:
    from torch.distributed import TCPStore

_STORE_S = 300.0
_PART_BYTES = 8 * 2**20
_FOREVER_S = 2e6  # the launcher ends what takes too long
_NOT_RETURNED = (SPEC_FILE, "rendezvous")


@dataclass(frozen=True, kw_only=True)
class NodeShare:
    """One node's share of the `number`-th run: the ranks from `first` on.

    `folder` is where the command was given: ranks work there where the node has it, else where Ray has put the job's
    files. `environment` is added to that of the node.
    """

    number: int
    spec: RunSpec
    first: int
    ranks: int
    folder: str
    environment: dict[str, str] = field(default_factory=dict)


class RankEnded(NamedTuple):
    """A rank has ended."""

    rank: int
    code: int


class FilePart(NamedTuple):
    """The next bytes of a file that a rank wrote, `path` seen from the run's folder."""

    path: str
    data: bytes


Said = str | RankEnded | FilePart  # a text: rank 0 has entered this pass


class RayNode:
    """The actor. `end` may be called while `run` is at work: it has to have two threads."""

    def __init__(self) -> None:
        self._ranks: list[RankProcess] = []
        self._over = -1
        self._caches: set[str] = set()
        self._store: TCPStore | None = None  # which goes with the last reference

    def meeting(self) -> dict[str, str]:
        """The rendezvous of ranks on several nodes if this node has the first: a store of this process, for one run.

        It picks a port and listens at once, so that no other program can take it before a rank has begun.
        """
        from ray.util import get_node_ip_address

        from perfkit.measure.launch.store_server import serve_store

        here: str = get_node_ip_address()  # type: ignore[no-untyped-call]
        self._store, _ = serve_store(here, 0, within_s=_STORE_S)
        # As torchrun's agent does: ranks must not open the store themselves.
        agents = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
        return {"MASTER_ADDR": here, "MASTER_PORT": str(self._store.port), **agents}

    def run(self, share: NodeShare) -> Iterator[Said]:
        """Run this node's ranks in a folder that goes with them."""
        with TemporaryDirectory(prefix="perfkit-ray-") as temporary:
            folder = Path(temporary) / "run"
            write_json(folder / SPEC_FILE, share.spec)
            self._ranks = []
            if COMPILE_CACHE in share.environment:
                self._caches.add(share.environment[COMPILE_CACHE])
            try:
                for rank in range(share.first, share.first + share.ranks):
                    self._ranks.append(_start_node_rank(share, rank, folder))
                if self._over >= share.number:
                    kill_ranks(self._ranks)
                yield from self._report_output(share.first)
            finally:
                end_ranks(self._ranks)
            yield from _read_file_parts(folder)

    def end(self, number: int) -> None:
        """End what this node still runs of its run `number`, gently first."""
        self._over = number
        kill_ranks(self._ranks)

    def clear(self) -> None:
        """Remove what compiled code runs have left, in folders that were made for them."""
        for folder in map(Path, self._caches):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another run's files are still in it
                folder.parent.rmdir()

    def _report_output(self, first: int) -> Iterator[Said]:
        for index, line in read_lines(self._ranks, Deadline(_FOREVER_S)):
            if line is None:
                yield RankEnded(first + index, self._ranks[index].returncode)
            elif first + index == 0:
                yield line


def _start_node_rank(share: NodeShare, rank: int, folder: Path) -> RankProcess:
    here = Path(share.folder)
    environment = dict(share.environment)
    if "MASTER_ADDR" in environment:
        environment |= build_gloo_variables(environment["MASTER_ADDR"])
    place = RankPlace(folder=here if here.is_dir() else None, environment=environment)
    return start_rank("perfkit.measure.rank.worker", share.spec.launch, folder, rank, place=place)


def _read_file_parts(folder: Path) -> Iterator[FilePart]:
    """Read the ranks' files in parts."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name in _NOT_RETURNED:
            continue
        with path.open("rb") as file:
            yield FilePart(name, file.read(_PART_BYTES))
            while data := file.read(_PART_BYTES):
                yield FilePart(name, data)
