"""Real ranks over Gloo: each trains variants and leaves what it found in a file."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from perfkit.techniques.state import World
from perfkit.workloads.workload import Workload
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, train

Results = dict[str, Any]


def results_of(main: Callable[[int, str], None], folder: Path, ranks: int) -> list[Results]:
    """What each rank of `main` found."""
    mp.spawn(main, (str(folder),), nprocs=ranks)
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
    variant: str, world: World, baseline: dict[str, float] | None = None, workload: Workload = WORKLOAD
) -> Results:
    """Losses, facts, and where there is a baseline each claim with its verdict."""
    state = new_state(workload, world=world)
    reference = reference_facts(state)
    made = applied(variant, state)
    losses = train(made.state, accumulation=2)
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
