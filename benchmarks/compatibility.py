"""Which techniques go together: train every pair on two ranks of this machine and compare losses with the baseline's.

    python benchmarks/compatibility.py [--without compile] [--of bf16 accum] [--beside ddp zero1]

Pairs that techniques declare as conflicts are tried as well, so that one that no longer holds shows.
Every pair runs in processes of its own, because some of them crash.
"""

import argparse
import itertools
import multiprocessing
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch
import torch.distributed as dist

from perfkit.core.errors import PerfkitError, UnavailableError
from perfkit.core.spec import WorkloadSpec, convert_params, parse_technique
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import LOSSLESS, Technique
from perfkit.techniques.compose import check_compatibility
from perfkit.workloads.workload import join_batches, split_batch
from perfkit.workloads.workload_table import load_workload

VARIANTS = (
    "amp",
    "amp:dtype=fp16",
    "fused_ce",
    "flash",
    "flash:backend=math",
    "ckpt",
    "ckpt:mode=selective",
    "ckpt:every=sqrt",
    "flash:window=8",
    "ddp",
    "zero1",
    "zero2",
    "zero3",
    "tp",
    "tp:sp=false:loss=false",
    "offload:to=disk",
    "offload:what=optimizer:to=disk",
    "offload:what=parameters:to=disk",
    "optim_in_backward",
    "compile",
    "compile:scope=block",
    "bf16",
    "bf16:update=nearest",
    "accum",
    "compress",
    "inplace",
    "distill",
    "distill:teacher=int8",
    "prune",
    "prune:rewind=2",
    "optim:use=fused",
    "optim:use=momentum",
    "optim:use=lion",
)
RANKS = 2
STEPS = 3
TIMEOUT_S = 300
REFUSED = "refused: "


def techniques(names: Sequence[str]) -> list[Technique]:
    """Typed and in order, but without asking the compatibility table."""
    specs = [parse_technique(name) for name in names]
    typed = [convert_params(TECHNIQUES.load(spec.name), "technique", spec.name, spec.params) for spec in specs]
    order = TECHNIQUES.list_names()
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
    try:
        state = apply_all(techniques(names), state).state
    except UnavailableError as error:
        Path(folder, str(rank)).write_text(f"{REFUSED}{error}")
        return
    generators = [torch.Generator().manual_seed(each) for each in state.batches_of_ranks or (rank,)]
    losses = []
    for index in range(STEPS):
        batch = join_batches([workload.make_batch(generator) for generator in generators])
        batches = split_batch(batch, state.microbatches)
        losses.append(train_step(state, batches, index).item())
    Path(folder, str(rank)).write_text(" ".join(map(str, losses)))
    state.close()
    dist.destroy_process_group()


def losses_of(names: tuple[str, ...]) -> list[float] | str:
    """The losses, mean over ranks, or how the run ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch", "perfkit.techniques.apply", "perfkit.measure.rank.train_step"]
    )  # imported once
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
        written = [Path(folder, str(rank)).read_text() for rank in range(RANKS)]
        if written[0].startswith(REFUSED):
            return written[0]
        return [fmean(map(float, losses)) for losses in zip(*(text.split() for text in written), strict=True)]


def listed(names: tuple[str, ...]) -> str:
    try:
        check_compatibility(techniques(names))
    except PerfkitError as error:
        return str(error)
    return ""


def reference_of(pair: tuple[str, str]) -> tuple[str, ...]:
    """What the pair's losses are compared with: the one of the two that trains on a path of its own, else nothing."""
    return tuple(name for name in pair if techniques([name])[0].parity().relative is None)


def judged(pair: tuple[str, str], references: dict[tuple[str, ...], list[float] | str]) -> tuple[bool, str]:
    """Whether a pair trains as it should, and what was seen."""
    result, alone = losses_of(pair), reference_of(pair)
    if alone not in references:
        references[alone] = losses_of(alone)
    reference = references[alone]
    if isinstance(result, str) or isinstance(reference, str):
        return False, result if isinstance(result, str) else f"{alone[0]} alone: {reference}"
    worst = max(abs(a - b) / abs(b) for a, b in zip(result, reference, strict=True))
    tolerance = max(technique.parity().relative or LOSSLESS.relative for technique in techniques(pair))
    return worst <= tolerance, f"losses differ by {worst:.1e}, allowed {tolerance:.0e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", nargs="*", default=[], help="techniques to leave out (compile takes minutes)")
    parser.add_argument("--of", nargs="*", default=[], help="only pairs with one of these techniques")
    parser.add_argument("--beside", nargs="*", default=[], help="and of them those with one of these as the other")
    asked = parser.parse_args()
    variants = [variant for variant in VARIANTS if name_of(variant) not in asked.without]
    references: dict[tuple[str, ...], list[float] | str] = {(): losses_of(())}
    assert isinstance(references[()], list), f"the baseline itself fails: {references[()]}"
    for pair in itertools.combinations(variants, 2):
        if name_of(pair[0]) == name_of(pair[1]) or not wanted(pair, asked.of, asked.beside):
            continue
        entry = listed(pair)
        good, outcome = judged(pair, references)
        mark = "as listed" if good != bool(entry) else "LISTED, BUT RUNS" if entry else "FAILS, NOT LISTED"
        print(f"{' + '.join(pair):60s} {mark:18s} {outcome}", flush=True)


def name_of(variant: str) -> str:
    return variant.partition(":")[0]


def wanted(pair: tuple[str, str], of: Sequence[str], beside: Sequence[str]) -> bool:
    """Whether one of the pair is among `of` and the other among `beside`, by name or as written; no list has all."""

    def among(variant: str, names: Sequence[str]) -> bool:
        return not names or variant in names or name_of(variant) in names

    return any(among(one, of) and among(other, beside) for one, other in (pair, pair[::-1]))


if __name__ == "__main__":
    main()
