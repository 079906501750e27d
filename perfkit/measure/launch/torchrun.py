"""A run whose ranks torchrun starts: an agent on each machine, which ends all of its ranks as soon as one fails."""

import contextlib
import signal
import subprocess
from functools import cache
from pathlib import Path

from perfkit.files import read_json
from perfkit.measure.launch.nodes import Orders
from perfkit.measure.launch.ranks import HERE, RankPlace, RankProcess, end_ranks, launch_variables, start_process
from perfkit.spec import LaunchSpec, RunSpec, Struct
from perfkit.store.layout import SPEC_FILE, agent_file, agent_log

_OTHERS_S = 30.0
_LOOK_S = 0.2


class RankExits(Struct):
    """Ranks with an exit code other than 0, in the order in which the agent saw them end."""

    ended: tuple[tuple[int, int], ...]


def start_agent(launch: LaunchSpec, folder: Path, *, place: RankPlace = HERE, node: int = 0) -> RankProcess:
    """Start the agent of a run on the machine `node`; the first machine has the others start theirs.

    Its standard output is a pipe, on which rank 0 tells its progress.
    """
    if launch.nodes > 1 and node == 0:
        _orders(launch.endpoint).give(folder.absolute())
    variables = launch_variables(launch, folder)
    log = agent_log(folder, node)
    return start_process("perfkit.measure.launch.agent", folder, log, variables, place, arguments=(str(node),))


def end_others(launch: LaunchSpec) -> None:
    """Once the agent of the first machine has ended, all others end as well."""
    if launch.nodes > 1:
        _orders(launch.endpoint).end(launch.nodes, _OTHERS_S)


@cache
def _orders(endpoint: str) -> Orders:
    """One for all runs: the others stay connected, and go when this process ends."""
    return Orders(endpoint, first=True)


def exits_of(folder: Path, launch: LaunchSpec, agent_code: int | None) -> tuple[tuple[int | None, ...], list[int]]:
    """The exit code of each rank, and those that ended by themselves, the first one of each machine first.

    None for all where the agent itself failed, or was ended, before it could tell.
    """
    if agent_code == 0:
        return (0,) * launch.world_size, list(range(launch.world_size))
    told = [path for node in range(launch.nodes) if (path := agent_file(folder, node)).is_file()]
    if not told:
        return (None,) * launch.world_size, []
    seen = [read_json(path, RankExits).ended for path in told]
    codes = {rank: code for ended in seen for rank, code in ended}
    # An agent ends its others by SIGTERM once one has failed: the one that it saw first ended by itself.
    order = [
        rank for ended in seen for place, (rank, code) in enumerate(ended) if place == 0 or code != -signal.SIGTERM
    ]
    return tuple(codes.get(rank, 0) for rank in range(launch.world_size)), order


def run_beside(folder: Path, node: int, orders: Orders) -> None:
    """Run this machine's ranks of a run that the first machine has begun, until that is over."""
    launch = read_json(folder / SPEC_FILE, RunSpec).launch
    agent = start_agent(launch, folder, node=node)
    try:
        while agent.poll() is None and not orders.over():
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(_LOOK_S)
    finally:
        end_ranks([agent])
        orders.done(node)
