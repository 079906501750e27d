"""A run whose ranks torchrun starts: one agent, which ends all of them as soon as one fails."""

import signal
from pathlib import Path

from perfkit.files import read_json
from perfkit.measure.launch.ranks import RankPlace, RankProcess, launch_variables, start_process
from perfkit.spec import LaunchSpec, Struct
from perfkit.store.layout import AGENT_FILE, AGENT_LOG


class RankExits(Struct):
    """Ranks with an exit code other than 0, in the order in which the agent saw them end."""

    ended: tuple[tuple[int, int], ...]


def start_agent(launch: LaunchSpec, folder: Path, *, place: RankPlace) -> RankProcess:
    """Start the agent of a run. Its standard output is a pipe, on which rank 0 tells its progress."""
    variables = launch_variables(launch, folder)
    return start_process("perfkit.measure.launch.agent", folder, folder / AGENT_LOG, variables, place)


def exits_of(folder: Path, world_size: int, agent_code: int | None) -> tuple[tuple[int | None, ...], list[int]]:
    """The exit code of each rank, and those that ended by themselves, the first one first.

    None for all where the agent itself failed, or was ended, before it could tell.
    """
    if agent_code == 0:
        return (0,) * world_size, list(range(world_size))
    if not (folder / AGENT_FILE).is_file():
        return (None,) * world_size, []
    codes = dict(read_json(folder / AGENT_FILE, RankExits).ended)
    # The agent ends the others by SIGTERM once one has failed.
    order = [rank for rank, code in codes.items() if code != -signal.SIGTERM]
    return tuple(codes.get(rank, 0) for rank in range(world_size)), order
