"""How far planned times of GPU kernels are off: each program predicted from the others on the same device.

    python benchmarks/plan_time_traces.py TRACE... --sweeps FOLDER [--suite FOLDER...] [--write FILE]

Prints, for each program on each device, predicted over measured time of all its calls: by the median efficiency of each
class, by the curves of classes, and by those of ops and classes, all from the other programs on the same device; and
from what was measured on other devices alone. Then, of the sweeps, products with one weight from those with others,
which takes minutes. `--write` keeps all that was told as the table that comes with perfkit
(perfkit/plan/timing/efficiencies.json), with what `attention_kernels.py` derives, and prints no errors.

What is measured: the traces; `op_times.csv`, times of calls in traces of others, from the reference tables of the tests
of AMD-AGI/TraceLens (MIT; evals/e2e_tests_comparative/*/analysis_output_ref, commit 4dc822d5); matrix products and
attention, call by call over some thousand sizes, from the measurements that come with NVIDIA's aiconfigurator-core
0.12.0 (Apache-2.0; FOLDER is its aiconfigurator_core/systems/data), as vLLM calls them, which for products is
torch.nn.functional.linear. Suites of perfkit bench tell of the CPU that they ran on.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pandas as pd

from benchmarks.attention_kernels import write_packaged
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.core.errors import PerfkitError
from perfkit.cost.calls.op_call import Arg, OpCall, TensorArg
from perfkit.cost.formula_table import cost_op
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.plan.target.work import Work, compute_least_time, make_work
from perfkit.plan.timing.device_efficiencies import build_gpu_roofs, compute_unlikeness, get_learned_ceilings
from perfkit.plan.timing.efficiencies import MeasuredDevice
from perfkit.plan.timing.efficiency_store import LearnedDevice, LearnedProgram
from perfkit.plan.timing.learn import learn_efficiencies
from perfkit.plan.timing.samples import TimedCall, make_samples

OP_TIMES = Path(__file__).with_name("op_times.csv")

# Devices of the sweeps by their names in the catalogue, without those of which all figures are of another's clock.
SWEPT = {
    "a100_sxm": "a100-sxm-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb300": "gb300",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
}
_SIXTEEN_BITS = ["bfloat16", "float16"]

# Of the weights of a sweep every so many-th is left out.
_EVERY = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--sweeps", type=Path)
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    devices: dict[str, LearnedDevice] = {}
    for learned in (*_learned([*given.traces, *given.suite]), *_told(OP_TIMES), *_swept(given.sweeps)):
        known = devices.get(learned.device)
        devices[learned.device] = learned if known is None else known.merge_programs(learned.programs)
    if given.write is not None:
        write_packaged(given.write, devices.values())
        return
    _print(list(devices.values()))
    if given.sweeps is not None:
        _print_weights_left_out(given.sweeps)


def _learned(sources: Sequence[str]) -> Iterator[LearnedDevice]:
    for source in sources:
        try:
            for learned in learn_efficiencies(source):
                yield msgspec.structs.replace(learned, programs=tuple(map(_renamed, learned.programs)))
        except PerfkitError as error:
            print(f"left out: {error}")


def _renamed(program: LearnedProgram) -> LearnedProgram:
    """By the model alone, without the device at the beginning of a trace's name."""
    return msgspec.structs.replace(program, name=program.name.partition("_")[2] or program.name)


def _told(path: Path) -> Iterator[LearnedDevice]:
    calls: dict[tuple[str, str], list[TimedCall]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            made = OpCall(row["op"], tuple(_operand(shape, row["dtype"]) for shape in json.loads(row["operands"])))
            cost = cost_op(made)
            work = None if cost is None else make_work(made, cost)
            assert work is not None, row
            calls[row["device"], row["program"]].append(TimedCall(work, float(row["calls"]), float(row["us"]) * 1e-6))
    for (device, program), some in calls.items():
        yield _of_gpu(device, program, some, sweep=False)


def _operand(shape: Sequence[int], dtype: str) -> Arg:
    """A tensor whose elements lie side by side; a number where it has no shape."""
    if not shape:
        return 1.0
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return TensorArg(tuple(shape), tuple(strides), dtype)


def _swept(folder: Path | None) -> Iterator[LearnedDevice]:
    for name, device in SWEPT.items() if folder is not None else ():
        assert folder is not None
        calls = [_product(row) for row in _products(folder / name).itertuples()]
        causal = _last(folder / name, "attention/vllm/*/context_attention_perf.parquet")
        chosen = causal.attn_dtype.isin(_SIXTEEN_BITS) & causal.kv_cache_dtype.isin(_SIXTEEN_BITS)
        chosen &= causal.num_heads == causal.num_key_value_heads
        if "window_size" in causal:
            chosen &= causal.window_size == 0
        for row in causal[chosen].itertuples():
            heads = row.batch_size * row.num_heads * row.head_dim
            calls.append(_call("attention", 2.0 * heads * row.isl * (row.isl + 1), 4 * heads * row.isl, row.latency))
        yield _of_gpu(device, "products and attention of many sizes", calls, sweep=True)


def _products(folder: Path) -> pd.DataFrame:
    products = _last(folder, "gemm/vllm/*/gemm_perf.parquet")
    return products[products.gemm_dtype.isin(_SIXTEEN_BITS)]


def _product(row: Any) -> TimedCall:
    return _call("GEMM", 2.0 * row.m * row.n * row.k, row.m * row.k + row.k * row.n + row.m * row.n, row.latency)


def _print_weights_left_out(folder: Path) -> None:
    """Of each device the products with one weight (n, k), summed over all m, from those with all other weights."""
    print("\n| device | weights left out | off by (root mean square) | furthest |\n|---|--:|--:|--:|")
    for name, device in SWEPT.items():
        roofs, products = build_gpu_roofs(resolve_entry(device)), _products(folder / name)
        errors = []
        for (n, k), some in list(products.groupby(["n", "k"]))[::_EVERY]:
            others = products[(products.n != n) | (products.k != k)]
            programs = [
                _of_gpu(device, "", list(map(_product, each.itertuples())), sweep=True) for each in (others, some)
            ]
            rest, own = (learned.programs[0] for learned in programs)
            errors.append(MeasuredDevice(roofs, (rest,)).compute_error(own))
        mean, furthest = sqrt(sum(error**2 for error in errors) / len(errors)), max(map(abs, errors))
        print(f"| {roofs.device_name} | {len(errors)} | {exp(mean):.2f} | {exp(furthest):.2f} |")


def _last(folder: Path, pattern: str) -> pd.DataFrame:
    return pd.read_parquet(sorted(folder.glob(pattern))[-1])


def _call(op_class: str, flops: float, elements: float, ms: float) -> TimedCall:
    return TimedCall(Work(op_class, "bf16", flops, 2.0 * elements, matrix=True), 1.0, ms * 1e-3)


def _of_gpu(device: str, program: str, calls: Sequence[TimedCall], *, sweep: bool) -> LearnedDevice:
    roofs = build_gpu_roofs(resolve_entry(device))
    told = LearnedProgram(name=program, samples=make_samples(calls, roofs), sweep=sweep)
    return LearnedDevice(device=device, device_name=roofs.device_name, programs=(told,))


def _print(devices: Sequence[LearnedDevice]) -> None:
    ways = ("median", "classes", "ops", "others")
    print("| device | program | ms | median of classes | curves of classes | curves of ops | other devices alone |")
    print("|---|---|--:|--:|--:|--:|--:|")
    errors: dict[str, list[float]] = defaultdict(list)
    for learned in devices:
        roofs = _roofs(learned)
        for program in (each for each in learned.programs if not each.sweep):
            others = tuple(each for each in learned.programs if each is not program and each.threads == program.threads)
            like = _chain(learned, program, devices)
            cells = {}
            if others:
                classes = MeasuredDevice(roofs, tuple(map(_without_ops, others)), like)
                cells["median"] = _by_median(others, program, roofs)
                cells["classes"] = classes.compute_error(_without_ops(program))
                cells["ops"] = MeasuredDevice(roofs, others, like).compute_error(program)
            if like is not None:
                cells["others"] = MeasuredDevice(roofs, like.programs, like).compute_error(program)
            for name, error in cells.items():
                errors[name].append(error)
            shown = " | ".join(f"{exp(cells[name]):.2f}" if name in cells else "" for name in ways)
            print(f"| {learned.device_name} | {program.name} | {program.seconds * 1e3:.2f} | {shown} |")
    for name, some in errors.items():
        mean, middle = sqrt(sum(error**2 for error in some) / len(some)), median(map(abs, some))
        print(f"{name}: {len(some)} programs, off by {exp(mean):.2f} (root mean square), {exp(middle):.2f} (median)")


def _chain(learned: LearnedDevice, program: LearnedProgram, devices: Sequence[LearnedDevice]) -> MeasuredDevice | None:
    """What other GPUs tell, the most alike first, without the same model there."""
    if learned.ceilings:
        return None
    others = [each for each in devices if each is not learned and not each.ceilings]
    entry, measured = resolve_entry(learned.device), None
    for other in sorted(others, key=lambda each: compute_unlikeness(entry, resolve_entry(each.device)), reverse=True):
        kept = tuple(each for each in other.programs if each.name != program.name)
        if kept:
            measured = MeasuredDevice(_roofs(other), kept, measured)
    return measured


def _roofs(learned: LearnedDevice) -> Roofs:
    if not learned.ceilings:
        return build_gpu_roofs(resolve_entry(learned.device))
    return Roofs(get_learned_ceilings(learned), "cpu", learned.device_name, learned.programs[0].threads)


def _without_ops(program: LearnedProgram) -> LearnedProgram:
    return msgspec.structs.replace(
        program, samples=tuple(msgspec.structs.replace(sample, op="") for sample in program.samples)
    )


def _by_median(others: Sequence[LearnedProgram], program: LearnedProgram, roofs: Roofs) -> float:
    """By the median efficiency of each class over samples, of all work where a class is not known."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for sample in (sample for other in others for sample in other.samples):
        least = compute_least_time(sample.work, roofs)
        if least is not None and least.seconds:
            for key in (sample.op_class, ""):
                ratios[key].append(log(sample.seconds / least.seconds))
    predicted = measured = 0.0
    for sample in program.samples:
        least = compute_least_time(sample.work, roofs)
        if least is not None and least.seconds:
            known = ratios.get(sample.op_class) or ratios[""]
            predicted += sample.calls * least.seconds * exp(median(known))
            measured += sample.calls * sample.seconds
    return log(predicted / measured)


if __name__ == "__main__":
    main()
