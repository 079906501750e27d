"""How right inferred costs are: `python benchmarks/inferred.py TRACE...` prints Markdown.

The host's events (ops, launches) of the first 30, 50 and 70 % of a trace's launches are taken out, as if the recording
had begun later. What is then inferred of the kernels without an op is compared with what their own op tells.
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from perfkit.analysis.trace.time.step_windows import find_step_windows
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts, compute_item_costs
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind, collect_work_items
from perfkit.cost.calls.op_call import OpCall
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace

_HIDDEN = (0.3, 0.5, 0.7)
_HOST = ("cpu_op", "operator", "cuda_runtime", "cuda_driver", "runtime", "ac2g", "async_cpu_to_gpu", "fwdbwd")


class Compared(NamedTuple):
    """Shares of the time of the kernels whose op was hidden, and how many of the inferred ones are wrong."""

    hidden: int
    inferred: float
    other_call: int
    other_flops: int
    other_bytes: int


def compare(path: Path, share: float) -> Compared:
    """Hide the ops of the first launches and compare what is inferred."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    file = json.loads(text)
    whole, true = _costs(path)
    with tempfile.TemporaryDirectory() as folder:
        shortened = Path(folder) / "trace.json"
        shortened.write_text(json.dumps({"traceEvents": _without_first(_events(file), share)}))
        work, inferred = _costs(shortened)
    rows = {_key(whole, row): row for row in range(len(whole))}
    of_whole = np.asarray([rows[_key(work, row)] for row in range(len(work))])
    hidden = work.is_kind(WorkKind.WORK) & (work.owner == NONE) & (whole.owner[of_whole] != NONE)
    checked = np.flatnonzero(hidden & work.inferred)
    pairs = [(row, int(of_whole[row])) for row in checked.tolist()]
    time = work.busy_ns
    return Compared(
        hidden=int(hidden.sum()),
        inferred=float(time[checked].sum() / max(time[hidden].sum(), 1)),
        other_call=sum(_call(work, row) != _call(whole, own) for row, own in pairs),
        other_flops=sum(not _same(inferred.flops[row], true.flops[own]) for row, own in pairs),
        other_bytes=sum(not _same(inferred.bytes[row], true.bytes[own]) for row, own in pairs),
    )


def _events(file: Any) -> list[dict[str, Any]]:
    return list(file["traceEvents"] if isinstance(file, dict) else file)


def _without_first(events: list[dict[str, Any]], share: float) -> list[dict[str, Any]]:
    on_host = [str(event.get("cat", "")).lower() in _HOST for event in events]
    launches = sorted(
        event["ts"] for event, host in zip(events, on_host, strict=True) if host and "aunch" in event["name"]
    )
    begin = launches[int(len(launches) * share)]
    return [event for event, host in zip(events, on_host, strict=True) if not host or event["ts"] >= begin]


def _costs(path: Path) -> tuple[WorkItems, WorkItemCosts]:
    ops = read_ops(read_trace(path))
    work = collect_work_items(ops, find_step_windows(ops))
    return work, compute_item_costs(work, np.full(len(work), np.nan))


def _key(work: WorkItems, row: int) -> tuple[str, int, int]:
    return work.ops.trace.names[int(work.name[row])], int(work.start_ns[row]), int(work.lane[row])


def _call(work: WorkItems, row: int) -> OpCall | None:
    call = int(work.call[row])
    return None if call == NONE else work.ops.calls[call].call


def _same(inferred: float, true: float) -> bool:
    # Kernels that share an op's bytes do so by their times, which differ from call to call.
    return bool(np.isclose(inferred, true, rtol=0.05, equal_nan=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path)
    print("| trace | hidden launches | kernels | inferred, of their time | wrong call | wrong FLOPs | wrong bytes |")
    print("|---|---|---|---|---|---|---|")
    for path in parser.parse_args().traces:
        for share in _HIDDEN:
            compared = compare(path, share)
            counts = f"{compared.other_call} | {compared.other_flops} | {compared.other_bytes}"
            print(f"| `{path.name}` | {share:.0%} | {compared.hidden} | {compared.inferred:.1%} | {counts} |")


if __name__ == "__main__":
    main()
