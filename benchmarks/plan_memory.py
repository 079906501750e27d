"""How far planned peaks of memory are from measured ones.

    python -m benchmarks.plan_memory                     every workload with every technique
    python -m benchmarks.plan_memory gpt resnet          some of them, or any workload of perfkit plan
    python -m benchmarks.plan_memory --kept measured/    keep what was measured there, and measure it but once

Each variant is rehearsed as `perfkit plan` does, and trained with the memory pass of `perfkit bench`, each in a process
of its own, or one for each rank. Prints a row for each: both peaks of the first rank, and the category that is furthest
off, as a share of the measured peak. Rows beyond 1 % of the peak, or 3 % in a category, are marked.
"""

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.allocations import Allocations
from perfkit.core.errors import UnavailableError
from perfkit.core.spec import RunSpec, Schedule, parse_variants
from perfkit.core.units import format_bytes
from perfkit.measure.bench import compute_needed_ranks, find_refusal
from perfkit.measure.rank.run_rank import run_rank
from perfkit.measure.schedule import ScheduledRun, build_schedule
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.store.layout import MEMORY_FILE, get_rank_folder
from perfkit.store.memory_file import read_allocations
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import resolve_workload

HERE = Path(__file__).parent
WORKLOADS = {
    "gpt": "gpt:size=nano",
    "gpt-vocab": "gpt:size=nano:vocab=16384",
    "resnet": "resnet",
    "bert": "hf:BertConfig:num_hidden_layers=2:hidden_size=128:intermediate_size=512:num_attention_heads=4",
    "llama": "hf:LlamaConfig:num_hidden_layers=2:hidden_size=256:intermediate_size=688:vocab_size=2048",
    "mixtral": "hf:MixtralConfig:num_hidden_layers=2:hidden_size=128:intermediate_size=256:vocab_size=2048",
    "t5": "hf:T5Config:num_layers=2:d_model=128:d_ff=512:vocab_size=2048",
    "vit": "hf:ViTConfig:num_hidden_layers=2:hidden_size=128:intermediate_size=512:num_attention_heads=4",
    "lstm": f"{HERE}/plan_workloads.py:lstm",
    "vae": f"{HERE}/plan_workloads.py:vae",
}
TECHNIQUES = (
    "amp,ckpt,flash,accum,zero1,zero2,zero3,zero2:engine=fsdp1,zero3:engine=fsdp1,offload:what=activations|optimizer|parameters:to=disk,"
    "lora,optim:use=adamw8bit|lion8bit,fused_ce"
)
MOST_OF_PEAK, MOST_OF_CATEGORY = 0.01, 0.03
_SHORT = Schedule(warmup=1, max_warmup=1, timed=1, trace=0, parity=1)
_FORK = multiprocessing.get_context("fork")  # what is imported once is there in all


class Held(NamedTuple):
    """Bytes by category at the peak, or why there are none."""

    categories: dict[str, int]
    reason: str = ""

    @property
    def peak(self) -> int:
        return sum(self.categories.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--technique", default=TECHNIQUES)
    parser.add_argument(
        "--kept", type=Path, metavar="FOLDER", help="keep what is measured, and do not measure it again"
    )
    given = parser.parse_args()
    print("| workload | variant | planned | measured | difference | category that is furthest off | |")
    print("|---|---|--:|--:|--:|--:|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in given.workloads:
            for run in runs(name, given.technique):
                folder = (given.kept or Path(temporary)) / name / run.spec.variant
                print(row(name, run, folder), flush=True)


def runs(name: str, techniques: str) -> Iterator[ScheduledRun]:
    """One run for each variant of a workload."""
    request = BenchRequest(
        workload=resolve_workload(WORKLOADS.get(name, name), "cpu", None, None, 1),
        variants=tuple(parse_variants(techniques)),
        device="cpu",
        device_count=0,
        cores=1,
    )
    for run in build_schedule(request, compute_needed_ranks, find_refusal).runs:
        yield replace(run, spec=msgspec.structs.replace(run.spec, schedule=_SHORT, passes=("memory",)))


def row(name: str, run: ScheduledRun, folder: Path) -> str:
    """A row of the table; it names the reason where a variant has none."""
    start = f"| {name} | {run.spec.variant} | "
    if run.skip:
        return f"{start}{run.skip} | | | | |"
    planned, measured = _planned(run.spec), _measured(run.spec, folder)
    if planned.reason or measured.reason:
        peaks = (each.reason or format_bytes(each.peak) for each in (planned, measured))
        return f"{start}{' | '.join(peaks)} | | | |"
    parts = planned.categories.keys() | measured.categories.keys()
    apart = {part: planned.categories.get(part, 0) - measured.categories.get(part, 0) for part in parts}
    furthest = max(apart, key=lambda part: abs(apart[part]))
    off, category = planned.peak / measured.peak - 1, apart[furthest] / measured.peak
    outside = abs(off) > MOST_OF_PEAK or abs(category) > MOST_OF_CATEGORY
    return (
        f"{start}{format_bytes(planned.peak)} | {format_bytes(measured.peak)} | {100 * off:+.3f} % | "
        f"{100 * category:+.2f} % {furthest} | {'outside' if outside else ''} |"
    )


def _planned(spec: RunSpec) -> Held:
    with tempfile.NamedTemporaryFile() as answer:
        _in_processes(1, _plan, spec, answer.name)
        return Held(*json.loads(Path(answer.name).read_bytes() or '[{}, "the plan failed"]'))


def _plan(_rank: int, spec: RunSpec, answer: str) -> None:
    try:
        held = _held(rehearse_step(spec).allocations)
    except UnavailableError as error:
        held = Held({}, str(error))
    Path(answer).write_text(json.dumps(held))


def _measured(spec: RunSpec, folder: Path) -> Held:
    """What the first rank of a run held; the folder keeps its recording."""
    file = get_rank_folder(folder, 0) / MEMORY_FILE
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rendezvous").unlink(missing_ok=True)
        _in_processes(spec.launch.world_size, _train, spec, folder)
    return _held(read_allocations(file)) if file.is_file() else Held({}, "was not measured")


def _train(rank: int, spec: RunSpec, folder: Path) -> None:
    run_rank(spec, folder, rank=rank, local_rank=rank, report=lambda _: None)


def _held(allocations: Allocations) -> Held:
    held = build_memory_account(allocations)
    return Held({} if held is None else {share.category: share.bytes for share in held.categories})


def _in_processes(count: int, target: object, *arguments: object) -> None:
    processes = [_FORK.Process(target=target, args=(rank, *arguments)) for rank in range(count)]  # type: ignore[arg-type]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
