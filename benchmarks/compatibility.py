"""Which techniques go together: train every pair on two ranks of this machine and compare losses with the baseline's.

    python benchmarks/compatibility.py [--without compile]

Pairs that `perfkit.techniques.compatibility` lists are tried as well, so that an entry that no longer holds shows.
Every pair runs in processes of its own, because some of them crash.
"""

import argparse
import itertools
import math
import multiprocessing
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from perfkit.errors import PerfkitError
from perfkit.spec import WorkloadSpec, parse_technique, typed_params
from perfkit.techniques.apply import apply_all
from perfkit.techniques.compatibility import check
from perfkit.techniques.state import TrainState, World
from perfkit.techniques.table import TECHNIQUES
from perfkit.techniques.technique import Technique
from perfkit.workloads.table import load_workload

VARIANTS = (
    "amp",
    "amp:dtype=fp16",
    "fused_ce",
    "flash",
    "flash:backend=math",
    "ckpt",
    "ckpt:mode=selective",
    "ddp",
    "zero1",
    "zero2",
    "zero3",
    "offload:to=disk",
    "offload:what=optimizer:to=disk",
    "offload:what=parameters:to=disk",
    "optim_in_backward",
    "compile",
    "compile:scope=block",
)
RANKS = 2
STEPS = 3
TIMEOUT_S = 300


def techniques(names: Sequence[str]) -> list[Technique]:
    """Typed and in order, but without asking the compatibility table."""
    specs = [parse_technique(name) for name in names]
    typed = [typed_params(TECHNIQUES.load(spec.name), "technique", spec.name, spec.params) for spec in specs]
    order = TECHNIQUES.names()
    return sorted(typed, key=lambda technique: (technique.stage, order.index(technique.name)))


def train(rank: int, names: tuple[str, ...], folder: str) -> None:
    """One rank: the losses, or the error, go to a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    workload = load_workload(
        WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 16, "seq_len": 32, "vocab": 64}), device="cpu"
    )
    torch.manual_seed(0)
    state = TrainState(
        workload=workload,
        model=workload.build_model(),
        device=torch.device("cpu"),
        world=World(rank=rank, size=RANKS, local_rank=rank),
    )
    state = apply_all(techniques(names), state).state
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        loss = state.loss(workload.make_batch(generator))
        state.backward(loss)
        state.update()
        state.zero_grad()
        losses.append(loss.item())
    Path(folder, str(rank)).write_text(" ".join(map(str, losses)))
    state.close()
    dist.destroy_process_group()


def losses_of(names: tuple[str, ...]) -> list[float] | str:
    """The losses of rank 0, or how the run ended."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=train, args=(rank, names, folder)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join()
        codes = [process.exitcode for process in ranks]
        if any(codes):
            return f"exit codes {codes}"
        return [float(loss) for loss in Path(folder, "0").read_text().split()]


def listed(names: tuple[str, ...]) -> str:
    try:
        check(techniques(names))
    except PerfkitError as error:
        return str(error)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", nargs="*", default=[], help="techniques to leave out (compile takes minutes)")
    left_out = set(parser.parse_args().without)
    variants = [variant for variant in VARIANTS if variant.partition(":")[0] not in left_out]
    baseline = losses_of(())
    assert isinstance(baseline, list), f"the baseline itself fails: {baseline}"
    for pair in itertools.combinations(variants, 2):
        if pair[0].partition(":")[0] == pair[1].partition(":")[0]:
            continue
        result, entry = losses_of(pair), listed(pair)
        if isinstance(result, str):
            outcome, good = result, False
        else:
            worst = max(abs(a - b) / abs(b) for a, b in zip(result, baseline, strict=True))
            tolerances = [technique.parity().relative for technique in techniques(pair)]
            known = [tolerance for tolerance in tolerances if tolerance is not None]
            if len(known) < len(tolerances):
                outcome, good = f"losses are not comparable and differ by {worst:.1e}", all(map(math.isfinite, result))
            else:
                outcome, good = f"losses differ by {worst:.1e}, allowed {max(known):.0e}", worst <= max(known)
        mark = "as listed" if good != bool(entry) else "LISTED, BUT RUNS" if entry else "FAILS, NOT LISTED"
        print(f"{' + '.join(pair):60s} {mark:18s} {outcome}", flush=True)


if __name__ == "__main__":
    main()
