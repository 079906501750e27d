"""A run whose ranks torchrun starts: an agent on each machine, which ends all of its ranks as soon as one fails."""

import atexit
import contextlib
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from perfkit.core.files import read_json
from perfkit.core.spec import LaunchSpec, RunSpec, Struct
from perfkit.measure.launch.dump_mark import dump_limit_s
from perfkit.measure.launch.launcher import ExitCodes, Report, StartedRanks
from perfkit.measure.launch.network import build_gloo_variables
from perfkit.measure.launch.nodes import NodeCoordinator, get_agents_port, parse_endpoint
from perfkit.measure.launch.process_output import Deadline, read_lines
from perfkit.measure.launch.rank_processes import (
    HERE,
    RankPlace,
    RankProcess,
    build_launch_variables,
    count_ranks_per_node,
    end_ranks,
    start_process,
)
from perfkit.measure.launch.store_server import require_free_port
from perfkit.store.layout import SPEC_FILE, get_agent_file, get_agent_log

_OTHERS_S = 10.0  # beyond what their ranks may take for their flight records
_LOOK_S = 0.2


class _TorchrunLauncher:
    def check(self, launch: LaunchSpec) -> None:
        count_ranks_per_node(launch)
        if launch.nodes > 1:
            parse_endpoint(launch.endpoint)

    def start(
        self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report
    ) -> StartedRanks:
        if spec.launch.nodes > 1:
            require_free_port(get_agents_port(spec.launch.endpoint), "torchrun's agents")
            _get_coordinator(spec.launch.endpoint).wait_for_others(spec.launch.nodes, report)
        return _TorchrunRanks(spec.launch, folder, start_agent(spec.launch, folder, place=place))

    def give_back(self) -> None: ...


class _TorchrunRanks:
    def __init__(self, launch: LaunchSpec, folder: Path, agent: RankProcess) -> None:
        self._launch = launch
        self._folder = folder
        self._agent = agent

    def wait(self, timeout_s: float, report: Report) -> bool:
        try:
            for _, line in read_lines([self._agent], Deadline(timeout_s)):
                if line is not None:
                    report(line)
        except TimeoutError:
            return False
        return True

    def end(self) -> None:
        end_ranks([self._agent])
        if self._launch.nodes > 1:
            _get_coordinator(self._launch.endpoint).end(self._launch.nodes, dump_limit_s() + _OTHERS_S)

    def exits(self) -> ExitCodes:
        return read_exits(self._folder, self._launch, self._agent.returncode)


TORCHRUN = _TorchrunLauncher()


class AgentExits(Struct):
    """Ranks with an exit code other than 0, in the order in which the agent saw them end."""

    ended: tuple[tuple[int, int], ...]


def start_agent(launch: LaunchSpec, folder: Path, *, place: RankPlace = HERE, node: int = 0) -> RankProcess:
    """Start the agent of a run on the machine `node`; the first machine has the others start theirs.

    Its standard output is a pipe with rank 0's progress.
    """
    variables = build_launch_variables(launch, folder)
    if launch.nodes > 1:
        towards, _ = parse_endpoint(launch.endpoint)
        if node == 0:
            orders = _get_coordinator(launch.endpoint)
            orders.give(folder.absolute())
            towards = orders.get_node_address(1)
        variables |= build_gloo_variables(towards)
    log = get_agent_log(folder, node)
    return start_process("perfkit.measure.launch.agent", folder, log, variables, place, arguments=(str(node),))


@cache
def _get_coordinator(endpoint: str) -> NodeCoordinator:
    """One coordinator for all runs: the others stay connected until this process ends."""
    orders = NodeCoordinator(endpoint, first=True)
    atexit.register(orders.leave)
    return orders


def read_exits(folder: Path, launch: LaunchSpec, agent_code: int | None) -> ExitCodes:
    """Read how ranks ended; of each machine, the one that failed first comes first.

    None for all where the agent itself failed, or was ended, before it could tell.
    """
    if agent_code == 0:
        return ExitCodes((0,) * launch.world_size, tuple(range(launch.world_size)))
    files = [path for node in range(launch.nodes) if (path := get_agent_file(folder, node)).is_file()]
    if not files:
        untold = "torchrun's agent ended before its ranks could report; see agent0.log"
        return ExitCodes((None,) * launch.world_size, untold=untold)
    seen = [read_json(path, AgentExits).ended for path in files]
    codes = {rank: code for ended in seen for rank, code in ended}
    # An agent ends the others by SIGTERM once one has failed: the first one that it saw ended on its own.
    order = tuple(
        rank for ended in seen for place, (rank, code) in enumerate(ended) if place == 0 or code != -signal.SIGTERM
    )
    return ExitCodes(tuple(codes.get(rank, 0) for rank in range(launch.world_size)), order)


def run_node_ranks(folder: Path, node: int, orders: NodeCoordinator) -> None:
    """Run this machine's ranks of a run that the first machine has begun, until that is over."""
    launch = read_json(folder / SPEC_FILE, RunSpec).launch
    agent = start_agent(launch, folder, node=node)
    try:
        while agent.poll() is None and not orders.is_run_over():
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(_LOOK_S)
    finally:
        end_ranks([agent])
        orders.report_done(node)
