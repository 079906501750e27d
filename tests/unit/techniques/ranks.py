"""Real ranks over Gloo: each trains variants and leaves what it found in a file."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from perfkit.techniques.base.state import World
from perfkit.workloads.workload import Workload
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, train

Results = dict[str, Any]

_ROOT = Path(__file__).parents[3]


def results_of(main: Callable[[int, str], None], folder: Path, ranks: int) -> list[Results]:
    """What each rank of `main` found, each a process of its own: such as a fork can stand in for (`tests/warm`).

    Where one fails the others end, and it is told with what it printed.
    """
    code = f"from {main.__module__} import {main.__name__} as main; main({{}}, {str(folder)!r})"
    outputs = [folder / f"rank{rank}.log" for rank in range(ranks)]
    with ExitStack() as stack:
        started = []
        for rank, output in enumerate(outputs):
            file = stack.enter_context(output.open("wb"))
            command = [sys.executable, "-c", code.format(rank)]
            process = subprocess.Popen(command, cwd=_ROOT, stdout=file, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process)
        while any(process.poll() is None for process in started) and not any(each.returncode for each in started):
            time.sleep(0.02)
    failed = [output.read_text() for process, output in zip(started, outputs, strict=True) if process.returncode]
    assert not failed, "\n".join(failed)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


@contextmanager
def rank_of(rank: int, size: int, folder: str) -> Iterator[tuple[World, Results]]:
    """A rank of a group of so many, and its results, which are written at the end."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    results: Results = {}
    yield World(rank=rank, size=size, local_rank=rank), results
    Path(folder, f"rank{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


def trained(
    variant: str, world: World, baseline: dict[str, float] | None = None, workload: Workload = WORKLOAD, steps: int = 3
) -> Results:
    """Losses, facts, and where there is a baseline each claim with its verdict."""
    state = new_state(workload, world=world)
    reference = reference_facts(state)
    made = applied(variant, state)
    losses = train(made.state, steps, accumulation=2)
    facts = measured_facts(made.state, reference)
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    checked = [] if baseline is None else check_claims(claims, made.state, facts, baseline)
    made.state.close()
    return {
        "losses": losses,
        "facts": facts,
        "tolerance": made.parity.relative,
        "checked": checked,
        "techniques": [technique.name for technique in made.techniques],
    }
