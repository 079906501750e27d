"""torchrun's elastic agent, which starts the ranks of a run: `python -m perfkit.measure.launch.agent FOLDER`.

As `torchrun --standalone --nproc-per-node N -m perfkit.measure.worker FOLDER`, but for what it leaves when ranks fail:
how each of them ended, which torchrun only prints.
"""

import sys
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

from perfkit.files import read_json, write_json
from perfkit.measure.channel import end_with_parent
from perfkit.measure.launch.torchrun import RankExits
from perfkit.spec import RunSpec
from perfkit.store.layout import AGENT_FILE, SPEC_FILE


def main() -> None:
    """Entry point of the agent's process."""
    end_with_parent()
    folder = Path(sys.argv[1]).resolve()
    launch = read_json(folder / SPEC_FILE, RunSpec).launch
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with TemporaryDirectory(prefix="perfkit-torchrun-") as logs:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=launch.world_size,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "perfkit.measure.worker", str(folder))
        except ChildFailedError as error:
            ended = tuple((rank, failure.exitcode) for rank, failure in error.failures.items())
            write_json(folder / AGENT_FILE, RankExits(ended=ended))
            sys.exit(1)


if __name__ == "__main__":
    main()
