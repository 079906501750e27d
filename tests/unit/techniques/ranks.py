"""Real ranks over Gloo: each trains variants and leaves what it found in a file."""

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing.connection import wait
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


def results_of(
    main: Callable[[int, str], None], folder: Path, ranks: int, imports: Sequence[str] = ()
) -> list[Results]:
    """What each rank of `main` found, each a process of its own. Where one fails, what they printed is told.

    They are forks of one process, such as a fork can stand in for (`tests/warm`), that imports once what all need: the
    module of `main`, and `imports`.
    """
    code = (
        f"from {__name__} import fork_ranks; from {main.__module__} import {main.__name__} as main; "
        f"fork_ranks(main, {str(folder)!r}, {ranks}, {tuple(imports)})"
    )
    output = folder / "ranks.log"
    with ExitStack() as stack:
        file = stack.enter_context(output.open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=_ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        stack.callback(_end_group, process)
        process.wait()
    assert process.returncode == 0, output.read_text()
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its forks, if they have not ended."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def fork_ranks(main: Callable[[int, str], None], folder: str, ranks: int, imports: Sequence[str]) -> None:
    """Fork the ranks and wait for them; where one fails the others end."""
    for name in imports:
        import_module(name)
    gc.collect()
    gc.freeze()  # a third of what follows would be looking for garbage among what was imported
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=main, args=(rank, folder)) for rank in range(ranks)]
    for process in started:
        process.start()
    while running := [process.sentinel for process in started if process.exitcode is None]:
        wait(running)
        if any(process.exitcode for process in started):
            break
    ended = [process.exitcode for process in started]
    for process in started:
        process.kill()
    if any(ended):
        sys.exit(f"the ranks ended with {ended}")


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
