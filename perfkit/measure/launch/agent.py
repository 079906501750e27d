"""torchrun's elastic agent, which starts the ranks of a run: `python -m perfkit.measure.launch.agent FOLDER NODE`.

Like `torchrun --standalone --nproc-per-node N -m perfkit.measure.rank.worker FOLDER`, or with `--rdzv-backend static`
on several machines, but it also stores how each failed rank ended, which torchrun only prints.
"""

import sys
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from perfkit.core.files import read_json, write_json
from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.measure.launch.channel import end_with_parent
from perfkit.measure.launch.nodes import get_agents_port, parse_endpoint
from perfkit.measure.launch.rank_processes import count_ranks_per_node
from perfkit.measure.launch.torchrun_launcher import AgentExits
from perfkit.store.layout import SPEC_FILE, get_agent_file


def main() -> None:
    """Entry point of the agent's process."""
    end_with_parent()
    folder = Path(sys.argv[1]).resolve()
    node = int(sys.argv[2])
    launch = read_json(folder / SPEC_FILE, RunSpec).launch
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with TemporaryDirectory(prefix="perfkit-torchrun-") as logs:
        config = LaunchConfig(
            min_nodes=launch.nodes,
            max_nodes=launch.nodes,
            nproc_per_node=count_ranks_per_node(launch),
            **_build_rendezvous(launch, folder, node),
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "perfkit.measure.rank.worker", str(folder))
        except ChildFailedError as error:
            ended = tuple((rank, failure.exitcode) for rank, failure in error.failures.items())
            write_json(get_agent_file(folder, node), AgentExits(ended=ended))
            sys.exit(1)


def _build_rendezvous(launch: LaunchSpec, folder: Path, node: int) -> dict[str, Any]:
    if launch.nodes == 1:
        return {"run_id": uuid.uuid4().hex, "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    host, _ = parse_endpoint(launch.endpoint)
    endpoint = f"{host}:{get_agents_port(launch.endpoint)}"
    return {"run_id": str(folder), "rdzv_backend": "static", "rdzv_endpoint": endpoint, "rdzv_configs": {"rank": node}}


if __name__ == "__main__":
    main()
