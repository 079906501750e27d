"""Peaks and step times as `perfkit plan` predicts them, beside published measurements.

    python -m benchmarks.plan_published              plan what has no result yet, and write the table
    python -m benchmarks.plan_published --fresh      plan every row again
    python -m benchmarks.plan_published litgpt timm  rows whose name begins so

`published/measurements.json` has a row for each measurement: its source, the plan's arguments, `kernel` of attention if
it ran another than torch has (`published/kernels.py`), what was measured, what the source leaves open, and why the plan
misses it where it does. A result is kept with its arguments in
`results/plan_published.json`; a row is planned again if they change. Eight minutes for all on two cores; no GPU is
needed.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.published.kernels import plan_kernel
from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.parse_units import parse_amount
from perfkit.core.spec import parse_variants
from perfkit.core.units import format_bytes, format_seconds
from perfkit.devices.machine.machine import count_available_cores
from perfkit.measure.resolve_request import resolve_request
from perfkit.plan.gpu_memory.non_tensor_memory import CACHED
from perfkit.plan.rehearsal.quiet_libraries import silence_kineto
from perfkit.plan.target.target import parse_target
from perfkit.plan.variants.plan import plan_variant, schedule_run
from perfkit.store.request import BenchRequest, make_rank_fields
from perfkit.workloads.workload_table import resolve_workload

HERE = Path(__file__).parent
MEASUREMENTS = HERE / "published" / "measurements.json"
RESULTS = HERE / "results" / "plan_published.json"
TABLE = HERE / "results" / "plan_published.md"
ARGUMENTS = ("workload", "technique", "dtype", "gpu", "ranks", "accumulate", "network", "kernel")
MOST_S = 1200  # one plan
_FORK = multiprocessing.get_context("fork")  # what is imported once is there in all

Row = Mapping[str, Any]
Figure = dict[str, float]


def plan_row(row: Row) -> dict[str, Any]:
    """The planned figures of a row, each with its interval, or the reason why there are none."""
    target = parse_target(row["gpu"], None)._replace(
        network_bytes_per_s=parse_amount(row["network"], "bytes") if row["network"] else None
    )
    (techniques,) = parse_variants(row["technique"])
    request = BenchRequest(
        workload=resolve_workload(row["workload"], target.kind, None, None, row["accumulate"]),
        variants=(techniques,),
        device="cpu",
        device_count=0,
        cores=count_available_cores(),
        dtype=row["dtype"],
        accumulation=row["accumulate"],
        **make_rank_fields((row["ranks"],)),
    )
    planned = plan_variant(schedule_run(resolve_request(request), techniques, target), target)
    return describe_plan(plan_kernel(planned, row["kernel"]) if row["kernel"] else planned)


def describe_plan(planned: PlannedVariant) -> dict[str, Any]:
    """Allocated and reserved bytes at the peak and seconds of a step; `reason` for what is not known."""
    peak, step = planned.peak_allocated_bytes, planned.step_s
    figures: dict[str, Any] = {"reason": planned.reason or planned.step_reason}
    if peak is not None:
        free = next((part.bytes for part in planned.outside_allocator if part.name == CACHED), None)
        figures["allocated"] = _describe(peak.value, peak.low, peak.high)
        if free is not None:
            figures["reserved"] = _describe(peak.value + free.value, peak.low + free.low, peak.high + free.high)
        figures["categories"] = dict(peak.categories)
    if step is not None:
        figures["step"] = _describe(step.total.value, step.total.low, step.total.high)
        figures["parts"] = dict(step.parts)
    return figures


def _describe(value: float, low: float, high: float) -> Figure:
    return {"value": value, "low": low, "high": high}


def compare_rows(rows: Sequence[Row], results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each measured quantity beside its plan; `error` is planned over measured less one."""
    for row in rows:
        planned = results.get(row["id"], {}).get("planned", {})
        for quantity, measured in row["measured"].items():
            figure = planned.get(quantity)
            yield {
                "row": row["id"],
                "quantity": quantity,
                "measured": measured,
                "planned": figure,
                "reason": planned.get("reason", ""),
                "error": None if figure is None else figure["value"] / measured - 1,
                "within": None if figure is None else figure["low"] <= measured <= figure["high"],
                "width": None if figure is None else figure["high"] / figure["low"],
                "unknown": row["unknown"],
                "miss": row.get("miss", ""),
            }


def summarize(compared: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Median and worst factor, shares within 5 % and within the interval, and the median width of an interval."""
    errors = [row["error"] for row in compared]
    factors = [max(1 + error, 1 / (1 + error)) for error in errors]
    return {
        "count": len(errors),
        "median_error": statistics.median(map(abs, errors)),
        "within_5_percent": sum(abs(error) <= 0.05 for error in errors) / len(errors),
        "median_factor": statistics.median(factors),
        "worst_factor": max(factors),
        "within": sum(row["within"] for row in compared) / len(compared),
        "median_width": statistics.median(row["width"] for row in compared),
    }


def format_table(compared: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A row for each measured quantity that has a plan, or a reason for none."""
    yield "| measurement | quantity | measured | planned | interval | error | within | left open; why it misses |"
    yield "|---|---|--:|--:|--:|--:|---|---|"
    for row in compared:
        show = format_seconds if row["quantity"] == "step" else format_bytes
        start = f"| {row['row']} | {row['quantity']} | {show(row['measured'])} | "
        figure = row["planned"]
        if figure is None:
            if row["reason"]:
                yield f"{start}{row['reason']} | | | | {row['unknown']} |"
            continue
        notes = "; ".join(note for note in (row["unknown"], "" if row["within"] else row["miss"]) if note)
        interval = f"{show(figure['low'])} to {show(figure['high'])}"
        within = "yes" if row["within"] else "no"
        yield f"{start}{show(figure['value'])} | {interval} | {row['error']:+.1%} | {within} | {notes} |"


def format_summaries(compared: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for the peaks, one for the step times, and one for what has no plan yet."""
    known = [row for row in compared if row["planned"] is not None]
    for name, rows in (
        ("peaks", [row for row in known if row["quantity"] != "step"]),
        ("step times", [row for row in known if row["quantity"] == "step"]),
    ):
        if rows:
            s = summarize(rows)
            yield (
                f"{s['count']} {name}: median error {s['median_error']:.1%}, median factor {s['median_factor']:.2f}, "
                f"worst {s['worst_factor']:.2f}, {s['within_5_percent']:.0%} within 5 %, {s['within']:.0%} within "
                f"their interval, which is {s['median_width']:.2f} times wide (median)"
            )
    waiting = dict.fromkeys(row["row"] for row in compared if row["planned"] is None and not row["reason"])
    if waiting:
        yield f"{len(waiting)} rows have no plan yet: {'; '.join(waiting)}"


class _Plan(NamedTuple):
    """The plan of a row in a process of its own, with which its memory ends; it may run until `until`."""

    row: Row
    process: ForkProcess
    until: float


def _plan_rows(rows: Iterable[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Each row with its planned figures, one row a core at a time, in the order in which they are done."""
    waiting, running = deque(rows), dict[Connection, _Plan]()
    while waiting or running:
        while waiting and len(running) < count_available_cores():
            receiver, plan = _start_plan(waiting.popleft())
            running[receiver] = plan
        soonest = min(plan.until for plan in running.values())
        ready = wait(list(running), max(0.0, soonest - time.monotonic()))
        for receiver, plan in list(running.items()):
            late = time.monotonic() > plan.until
            if receiver in ready or late:
                del running[receiver]
                yield plan.row, _receive_figures(receiver) if receiver in ready else {"reason": f"more than {MOST_S} s"}
                plan.process.kill()
                plan.process.join()


def _start_plan(row: Row) -> tuple[Connection, _Plan]:
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_answer, args=(row, sender))
    process.start()
    sender.close()  # so that the end of a process that fails is noticed
    return receiver, _Plan(row, process, time.monotonic() + MOST_S)


def _receive_figures(receiver: Connection) -> dict[str, Any]:
    try:
        figures: dict[str, Any] = receiver.recv()
    except EOFError:
        return {"reason": "the plan failed"}
    return figures


def _answer(row: Row, sender: Any) -> None:
    sender.send(plan_row(row))


def _get_arguments(row: Row) -> dict[str, Any]:
    return {key: row[key] for key in ARGUMENTS}


def _write(rows: Sequence[Row], results: Mapping[str, Any]) -> None:
    ordered = {row["id"]: results[row["id"]] for row in rows if row["id"] in results}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    compared = list(compare_rows(rows, results))
    text = [*(f"{line}\n" for line in format_summaries(compared)), *format_table(compared), ""]
    TABLE.write_text("\n".join(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="beginnings of names [default: all]")
    parser.add_argument("--fresh", action="store_true", help="plan rows that have a result too")
    given = parser.parse_args()
    silence_kineto()
    rows = json.loads(MEASUREMENTS.read_text())
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results = {row["id"]: results[row["id"]] for row in rows if row["id"] in results}
    chosen = [row for row in rows if not given.rows or row["id"].startswith(tuple(given.rows))]
    new = [
        row
        for row in chosen
        if given.fresh or row["id"] not in results or results[row["id"]]["arguments"] != _get_arguments(row)
    ]
    for row, figures in _plan_rows(new):
        results[row["id"]] = {"arguments": _get_arguments(row), "planned": figures}
        _write(rows, results)
        print(*list(format_table(list(compare_rows([row], results))))[2:], sep="\n", flush=True)
    _write(rows, results)
    print(*format_summaries(list(compare_rows(rows, results))), sep="\n")


if __name__ == "__main__":
    main()
