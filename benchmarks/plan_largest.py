"""Whether the largest batch by the plan is the largest that runs under the same `--memory-limit`.

    python -m benchmarks.plan_largest                    gpt nano, an LSTM and a small ResNet, on a CPU
    python -m benchmarks.plan_largest lstm --limit 3GiB  one of them

For each workload the batch is searched for as `perfkit bench -t batch:auto` does: a plan has the first word, trial runs
have the last. Prints a row for each: both sizes, and how far they are apart in steps of the search, which does not tell
sizes apart that are within a sixteenth of the planned one. Rows that are more than one step off are marked.
"""

import argparse
from pathlib import Path

from perfkit.core.parse_units import parse_amount
from perfkit.core.spec import parse_variants
from perfkit.core.units import format_bytes
from perfkit.devices.machine.machine import count_available_cores
from perfkit.measure.largest_batch import compute_resolution
from perfkit.plan.search.resolve_auto import find_open_params
from perfkit.store.layout import BatchSearch
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import resolve_workload

HERE = Path(__file__).parent
WORKLOADS = {
    "gpt": "gpt:size=nano",
    "lstm": f"{HERE}/plan_workloads.py:lstm",
    "resnet": "resnet",
}
MOST_STEPS = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--limit", default="2GiB", metavar="AMOUNT", help="address space of the process")
    parser.add_argument("--most", type=int, default=1024, metavar="N", help="no larger batch is tried")
    given = parser.parse_args()
    limit = int(parse_amount(given.limit, "bytes"))
    print("| workload | limit | planned | runs | apart | step | trials | |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    for name in given.workloads:
        print(row(name, searched(WORKLOADS[name], limit, given.most)), flush=True)


def searched(workload: str, limit_bytes: int, most: int) -> BatchSearch:
    """The search for the largest batch of a workload on this machine's CPU."""
    request = BenchRequest(
        workload=resolve_workload(workload, "cpu", None, None, 1),
        variants=tuple(parse_variants(f"batch:auto:most={most}")),
        device="cpu",
        device_count=0,
        cores=count_available_cores(),
        memory_limit_bytes=limit_bytes,
    )
    (search,) = find_open_params(request, lambda _: None).batches
    return search


def row(name: str, search: BatchSearch) -> str:
    """A row of the table."""
    assert search.limit_bytes is not None
    start = f"| {name} | {format_bytes(search.limit_bytes)} | "
    trials = f"{len(search.trials)}"
    runs = max((trial.size for trial in search.trials if trial.fits), default=None)
    if search.predicted_size is None or runs is None:
        return (
            f"{start}{search.predicted_size or 'none'} | {runs or search.trials[-1].reason} | | | {trials} | outside |"
        )
    step = compute_resolution(search.predicted_size)
    apart = (search.predicted_size - runs) / step
    outside = "outside" if abs(apart) > MOST_STEPS else ""
    return f"{start}{search.predicted_size} | {runs} | {apart:+.1f} | {step} | {trials} | {outside} |"


if __name__ == "__main__":
    main()
