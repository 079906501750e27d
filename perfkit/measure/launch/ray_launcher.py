"""`--launcher ray`: ranks on the nodes of a Ray cluster, which reserves their CPUs or GPUs.

On each node an actor starts its ranks as separate processes (`ray_node`), as local launchers do: so they have exit
codes, are ended in order, and are independent of Ray's own process. Their files come back with their messages. Ray
Train does not provide this: its workers train in Ray's processes.
"""

import atexit
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.files import open_log
from perfkit.core.ray_cluster import connect_ray, get_last_line, keep_signal_errors
from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.devices.accelerator import has_own_memory
from perfkit.measure.launch.launcher import ExitCodes, Report, StartedRanks
from perfkit.measure.launch.process_output import Deadline
from perfkit.measure.launch.rank_processes import GRACE_S, RankPlace, count_ranks_per_node, refuse_endpoint
from perfkit.measure.launch.ray_node import FilePart, NodeShare, RankEnded, RayNode

_PLACED_WITHIN_S = 300.0  # a cluster may start nodes for it
_ANSWER_WITHIN_S = 60.0


class _RayLauncher:
    def __init__(self) -> None:
        self._held: _RayNodes | None = None

    def check(self, launch: LaunchSpec) -> None:
        count_ranks_per_node(launch)
        refuse_endpoint(launch)
        if os.environ.get("RAY_ADDRESS", "").startswith("ray://"):
            raise UsageError(
                "--launcher ray must run on a machine of the cluster, but RAY_ADDRESS names one to connect to "
                "from outside; use `ray job submit -- perfkit bench ...`"
            )

    def start(
        self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report
    ) -> StartedRanks:
        assert not under, "a profiler starts its rank itself"
        return _RayRanks(self._reserve_nodes(spec.launch, report), spec, folder, place)

    def give_back(self) -> None:
        """Release the nodes of the last run, which were kept for the next one."""
        if self._held is not None:
            self._held.give_back()
            self._held = None

    def _reserve_nodes(self, launch: LaunchSpec, report: Report) -> "_RayNodes":
        """Those of the last run where they do for this one; else they are given back first."""
        wanted = _compute_needs(launch)
        if self._held is not None and (self._held.wanted != wanted or not self._held.usable):
            self.give_back()
        if self._held is None:
            report("waiting for nodes of the Ray cluster")
            self._held = _RayNodes(*wanted)
        return self._held


RAY = _RayLauncher()


def _compute_needs(launch: LaunchSpec) -> tuple[int, dict[str, float]]:
    """Compute the number of nodes and the resources of each."""
    ranks = count_ranks_per_node(launch)
    needs = {"CPU": float(ranks * (launch.threads or 1))}
    return launch.nodes, needs | ({"GPU": float(ranks)} if has_own_memory(launch.device) else {})


class _RayNodes:
    """An actor on each of the nodes, with the resources of its ranks."""

    def __init__(self, nodes: int, needs: dict[str, float]) -> None:
        self.wanted = (nodes, needs)
        self.lost = False
        self.ray, _ = connect_ray()
        from ray.util.placement_group import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._group = placement_group([needs] * nodes, strategy="STRICT_SPREAD")
        try:
            self._wait_for_group()
        except BaseException:
            remove_placement_group(self._group)  # else it takes nodes as soon as they are free
            raise
        self.nodes = [
            self.ray.remote(RayNode)
            .options(
                num_cpus=needs["CPU"],
                num_gpus=needs.get("GPU", 0),
                max_concurrency=2,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
            )
            .remote()
            for index in range(nodes)
        ]
        atexit.register(self.give_back)  # before Ray's own, which ends the actors

    @property
    def usable(self) -> bool:
        return not self.lost and bool(self.ray.is_initialized())

    def give_back(self) -> None:
        """Release the nodes, and leave nothing there."""
        from ray.util.placement_group import remove_placement_group

        atexit.unregister(self.give_back)
        if not self.ray.is_initialized():  # the program has left the cluster
            return
        cleared = [node.clear.remote() for node in self.nodes]
        self.ray.wait(cleared, num_returns=len(cleared), timeout=_ANSWER_WITHIN_S)
        remove_placement_group(self._group)  # which ends the actors

    def meeting(self) -> dict[str, str]:
        """The rendezvous of ranks on several nodes."""
        if len(self.nodes) == 1:
            return {}
        try:
            with keep_signal_errors():
                variables: dict[str, str] = self.ray.get(self.nodes[0].meeting.remote())
        except self.ray.exceptions.RayError as error:
            self.lost = True
            raise PerfkitError(
                f"the Ray node of rank 0 ended: {get_last_line(error)}; continue with `perfkit bench --resume FOLDER`"
            ) from None
        return variables

    def _wait_for_group(self) -> None:
        with keep_signal_errors():
            placed = self._group.wait(_PLACED_WITHIN_S)
        if not placed:
            raise PerfkitError(self._explain_shortage())

    def _explain_shortage(self) -> str:
        nodes, needs = self.wanted
        resources = " and ".join(f"{amount:g} {what}s" for what, amount in needs.items())
        there = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        has = "; ".join(" and ".join(f"{one.get(what, 0):g} {what}s" for what in needs) for one in there)
        return (
            f"fewer than {nodes} nodes of the Ray cluster had {resources} free within {_PLACED_WITHIN_S / 60:.0f} "
            f"minutes; its nodes have: {has}. Check --threads, --world-size and --nnodes"
        )


class _RayRanks:
    _runs = 0

    def __init__(self, places: _RayNodes, spec: RunSpec, folder: Path, place: RankPlace) -> None:
        _RayRanks._runs += 1
        self._number = _RayRanks._runs
        self._places = places
        self._folder = folder
        self._per_node = count_ranks_per_node(spec.launch)
        self._codes: dict[int, int | None] = {}  # of ranks that have ended, the first one first
        self._by_themselves: tuple[int, ...] = ()
        self._untold = ""
        own = {name: value for name, value in place.environment.items() if value is not None}
        environment = {**places.meeting(), **own}
        self._streams: dict[Any, int] = {}
        for index, node in enumerate(places.nodes):
            share = NodeShare(
                number=self._number,
                spec=spec,
                first=index * self._per_node,
                ranks=self._per_node,
                folder=str(place.folder or Path.cwd()),
                environment=environment,
            )
            self._streams[node.run.options(num_returns="streaming").remote(share)] = index

    def wait(self, timeout_s: float, report: Report) -> bool:
        with keep_signal_errors():
            return self._wait_for_ranks(Deadline(timeout_s), report)

    def _wait_for_ranks(self, deadline: Deadline, report: Report) -> bool:
        failed = False
        while len(self._codes) < self._per_node * len(self._places.nodes):
            if not self._receive_message(deadline.left_s, report):
                return failed
            if not failed and any(code != 0 for code in self._codes.values()):
                failed = True
                deadline.shorten(GRACE_S)
        return True

    def end(self) -> None:
        self._by_themselves = tuple(self._codes)
        for index in self._streams.values():
            self._places.nodes[index].end.remote(self._number)
        while self._streams:
            if not self._receive_message(_ANSWER_WITHIN_S, lambda _: None):
                for stream in list(self._streams):
                    self._mark_lost(stream, f"no answer in {_ANSWER_WITHIN_S:.0f} s")

    def exits(self) -> ExitCodes:
        codes = tuple(self._codes.get(rank) for rank in range(self._per_node * len(self._places.nodes)))
        return ExitCodes(codes, self._by_themselves, self._untold)

    def _receive_message(self, within_s: float, report: Report) -> bool:
        """The next that a node says; False where none does in time."""
        ready, _ = self._places.ray.wait(list(self._streams), num_returns=1, timeout=within_s)
        for stream in ready:
            try:
                message = self._places.ray.get(next(stream))
            except StopIteration:
                del self._streams[stream]
            except self._places.ray.exceptions.RayError as error:
                self._mark_lost(stream, get_last_line(error))
            else:
                self._handle_message(message, report)
        return bool(ready)

    def _handle_message(self, message: object, report: Report) -> None:
        if isinstance(message, RankEnded):
            self._codes[message.rank] = message.code
        elif isinstance(message, FilePart):
            name = PurePosixPath(message.path)
            assert ".." not in name.parts, "it is in the run's folder"
            path = self._folder / name.relative_to(name.anchor)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_log(path) as file:
                file.write(message.data)
        else:
            report(str(message))

    def _mark_lost(self, stream: Any, why: str) -> None:
        """A node is gone, and its ranks with it."""
        index = self._streams.pop(stream)
        self._places.lost = True
        first = index * self._per_node
        ranks = range(first, first + self._per_node)
        self._codes |= {rank: None for rank in ranks if rank not in self._codes}
        named = f"rank {first}" if self._per_node == 1 else f"ranks {first} to {ranks[-1]}"
        self._untold = self._untold or f"the Ray node of {named} ended: {why}"
