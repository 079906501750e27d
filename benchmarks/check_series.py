"""Series of real step times for `benchmarks.check_quality`: recorded pairs of processes, kept in one Parquet file.

`same` are pairs of the same code, `slower` pairs whose second side does extra work in every step. A row is a step; the
rest (what a pair took, peaks of memory, the machine) is JSON beside the table's schema.
"""

import math
import os
import platform
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.check.judge.check_figures import read_figures
from perfkit.check.judge.process_pairs import CPU_TIME, compute_pair_ratio
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.side import MeasuredSide
from perfkit.check.sides.suites import measure_sides
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import LaunchSpec, RunSpec, Struct, WorkloadSpec
from perfkit.store.pairs import LOCK_STEP, Pair
from perfkit.store.request import BenchRequest

META = b"perfkit_check_series"
SHARE = 0.03
MEMORY_SHARE = 0.01
SIDES = ("before", "after")

# Pairs that tell how much a product of the extra work takes, and the number of products in their steps.
_CALIBRATION_PAIRS = 6
_MANY = 200

# gpt:size=nano with extra work in each step: products of small matrices, and bytes held until the next step.
_WORKLOAD = """
import dataclasses

import torch

from perfkit.workloads.model_loss import loss_of
from perfkit.workloads.gpt import Gpt

PRODUCTS, BYTES = {products}, {held}


def build():
    base = Gpt(size="nano").build()
    matrix = torch.full((192, 192), 0.5)
    held = []

    def loss(model, batch):
        held[:] = [torch.empty(BYTES, dtype=torch.uint8)] if BYTES else []
        for _ in range(PRODUCTS):
            matrix @ matrix
        return loss_of(base, model, batch)

    return dataclasses.replace(base, loss=loss)
"""


class Recorded(Struct):
    """What was recorded: pairs, and the peak of allocated bytes by side of each memory comparison."""

    same: tuple[Pair, ...] = ()
    slower: tuple[Pair, ...] = ()
    share: float = SHARE
    same_peaks: tuple[tuple[float, float], ...] = ()
    more_peaks: tuple[tuple[float, float], ...] = ()
    machine: dict[str, str] = {}


def record(count: int, memory: int, threads: int | None) -> Recorded:
    """`count` pairs of either kind, in turn, so that both see the same moods of the machine, and `memory` peaks."""
    launch = LaunchSpec(threads=threads or os.cpu_count())
    spec = RunSpec(workload=WorkloadSpec(name="workload.py:build"), launch=launch)
    with tempfile.TemporaryDirectory(prefix="perfkit-series-") as name:
        folder = Path(name)
        base = _side(folder / "base", products=0, held=0)
        slow = _side(folder / "slow", products=_products(base, spec, folder / "extra"), held=0)
        same, slower = [], []
        print("extra work:", (slow.root / "workload.py").read_text(encoding="utf-8").splitlines()[8], flush=True)
        for index in range(count):
            same.append(_pair(base, base, spec, folder / f"same{index}", index))
            slower.append(_pair(base, slow, spec, folder / f"slow{index}", index))
            print(f"{index + 1} of {count} pairs of each kind, {same[-1].seconds:.1f} s a pair", flush=True)
        same_peaks = [_peaks(base, base, launch, folder / f"peaks{index}") for index in range(memory)]
        held = round(MEMORY_SHARE * same_peaks[0][0]) if memory else 0
        heavy = _side(folder / "heavy", products=0, held=held)
        more_peaks = [_peaks(base, heavy, launch, folder / f"more{index}") for index in range(memory)]
    return Recorded(
        same=tuple(same),
        slower=tuple(slower),
        same_peaks=tuple(same_peaks),
        more_peaks=tuple(more_peaks),
        machine={
            "platform": platform.platform(),
            "cpus": str(os.cpu_count()),
            "threads": str(launch.threads),
            "torch": str(torch.__version__),
        },
    )


def write_series(path: Path, recorded: Recorded) -> None:
    """The file of a recording; times as 32-bit floats (relative error below 1e-7)."""
    rows = [
        (kind, index, side, wall_s, cpu_s)
        for kind in ("same", "slower")
        for index, pair in enumerate(getattr(recorded, kind))
        for side in SIDES
        for wall_s, cpu_s in zip(getattr(pair, side).wall_s, getattr(pair, side).cpu_s, strict=True)
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    kinds = (pa.string(), pa.int16(), pa.string(), pa.float32(), pa.float32())
    names = ("kind", "pair", "side", "wall_s", "cpu_s")
    table = pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, kinds, strict=True)})
    slim = msgspec.structs.replace(recorded, same=_emptied(recorded.same), slower=_emptied(recorded.slower))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({META: msgspec.json.encode(slim)}), path, compression="zstd")


def read_series(path: Path) -> Recorded:
    """What `write_series` wrote."""
    table = pq.read_table(path)
    slim = msgspec.json.decode((table.schema.metadata or {})[META], type=Recorded)
    steps: dict[tuple[str, int, str], tuple[list[float], list[float]]] = {}
    for row in table.to_pylist():
        wall, cpu = steps.setdefault((row["kind"], row["pair"], row["side"]), ([], []))
        wall.append(row["wall_s"])
        cpu.append(row["cpu_s"])

    def filled(kind: str, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
        filled_pairs = []
        for index, pair in enumerate(pairs):
            before, after = (
                StepSamples(wall_s=tuple(wall), cpu_s=tuple(cpu))
                for wall, cpu in (steps[kind, index, side] for side in SIDES)
            )
            filled_pairs.append(Pair(before=before, after=after, seconds=pair.seconds))
        return tuple(filled_pairs)

    return msgspec.structs.replace(slim, same=filled("same", slim.same), slower=filled("slower", slim.slower))


def _emptied(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    return tuple(Pair(before=StepSamples(), after=StepSamples(), seconds=pair.seconds) for pair in pairs)


def _side(folder: Path, *, products: int, held: int) -> MeasuredSide:
    folder.mkdir()
    (folder / "workload.py").write_text(_WORKLOAD.format(products=products, held=held), encoding="utf-8")
    return MeasuredSide(label=folder.name, root=folder, tree=folder)


def _pair(before: MeasuredSide, after: MeasuredSide, spec: RunSpec, folder: Path, index: int = 0) -> Pair:
    """One pair. Odd ones are measured with the sides exchanged, so that neither is always first."""
    sides = (before, after) if index % 2 == 0 else (after, before)
    pair = measure_pairs(
        *sides,
        spec,
        turns=LOCK_STEP,
        most=1,
        budget_s=600,
        folder=folder,
        enough=lambda _: "one is asked for",
        progress=_ignored,
    ).pairs[0]
    return pair if index % 2 == 0 else Pair(before=pair.after, after=pair.before, seconds=pair.seconds)


def _products(base: MeasuredSide, spec: RunSpec, folder: Path) -> int:
    """How many products make a step `SHARE` slower in CPU time: in a step one costs more than in a loop of its own."""
    folder.mkdir()
    many = _side(folder / "many", products=_MANY, held=0)
    pairs = [_pair(base, many, spec, folder / str(index), index) for index in range(_CALIBRATION_PAIRS)]
    logs = [compute_pair_ratio(pair, CPU_TIME, LOCK_STEP) or 0.0 for pair in pairs]
    return max(1, round(_MANY * SHARE / math.expm1(statistics.fmean(logs))))


def _peaks(before: MeasuredSide, after: MeasuredSide, launch: LaunchSpec, folder: Path) -> tuple[float, float]:
    """The peak of allocated bytes of both sides, from one instrumented run of each."""
    request = BenchRequest(
        workload=WorkloadSpec(name="workload.py:build"),
        variants=((),),
        device="cpu",
        device_count=0,
        cores=launch.threads or 1,
    )
    measure_sides(before, after, request, folder, repeats=1, command="", ceilings=None, progress=_ignored)
    before_, after_ = (read_figures(analyze_suite(folder / side).variants[0]).exact["peak_allocated"] for side in SIDES)
    return before_, after_


def _ignored(*_: object) -> None:
    """Progress that nobody watches."""
