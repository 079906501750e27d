"""Do the books balance? Where every byte of the peak is, for workloads and techniques, and how much is unknown.

    python -m benchmarks.memory_balance [--workload gpt] [--technique amp,zero3] [--out benchmarks/results]

Trains each variant on this machine's CPU with nothing but the memory pass and prints its account: the peak, each
category, what the process holds beyond. Variants that cannot run here, or did not, are listed with their reason. Exits
with 1 where a sum is not the whole, to the byte, or more than 1 % of a peak is unknown.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import msgspec

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.suite import Analysis
from perfkit.core.allocations import UNKNOWN
from perfkit.core.files import write_json
from perfkit.core.spec import Struct
from perfkit.core.units import format_bytes
from tests.fixtures.memory_oracles.memory_runs import bytes_of, run_memory

LLAMA = "hidden_size=256:intermediate_size=1024:num_hidden_layers=4:num_attention_heads=4:vocab_size=1024"
WORKLOADS = ("gpt", "resnet", f"hf:LlamaConfig:{LLAMA}:batch_size=4")
# On a CPU offloading to the host is refused, for all is there already: to disk it acts.
TECHNIQUES = (
    "amp",
    "ckpt",
    "flash",
    "compile",
    "offload:what=activations:to=disk",
    "offload:what=optimizer:to=disk",
    "offload:what=parameters:to=disk",
    "zero1",
    "zero2",
    "zero3",
)
MOST_UNKNOWN = 0.01
TITLE = """# Where the memory of a training step is: the balance at the peak

    python -m benchmarks.memory_balance --out benchmarks/results

`sum` says whether the categories add up to the peak to the byte, and the peak with what lies
beyond the allocator to the process.

"""


class Row(Struct):
    """One variant: its account, or why it has none."""

    workload: str
    variant: str
    reason: str = ""
    account: MemoryAccount | None = None


class Result(Struct):
    """What is written to `memory_balance.json`."""

    torch: str
    rows: tuple[Row, ...]


def rows_of(workload: str, analysis: Analysis) -> list[Row]:
    """Every variant of a suite."""
    return [
        Row(
            workload=workload,
            variant=variant.name,
            account=None if variant.memory is None else _balance_of(variant.memory),
            reason="" if variant.memory is not None else f"{variant.status}: {variant.reason or 'no account'}",
        )
        for variant in analysis.variants
    ]


def _balance_of(account: MemoryAccount) -> MemoryAccount:
    """The account without what is drawn over time and listed block by block."""
    return msgspec.structs.replace(account, timeline_s=(), timeline_categories={}, bands=(), largest_blocks=(), rows=())


def faults(account: MemoryAccount) -> list[str]:
    """What is wrong with an account, in words."""
    wrong = []
    if sum(share.bytes for share in account.categories) != account.peak_bytes:
        wrong.append("categories do not sum to the peak")
    beyond = sum(share.bytes for share in account.outside_allocator)
    if account.process_bytes is not None and account.peak_bytes + beyond != account.process_bytes:
        wrong.append("peak and beyond do not sum to the process")
    if unknown(account) > MOST_UNKNOWN:
        wrong.append(f"more than {MOST_UNKNOWN:.0%} unknown")
    return wrong


def unknown(account: MemoryAccount) -> float:
    """Share of the peak."""
    return bytes_of(account, [UNKNOWN]) / account.peak_bytes


def table(rows: Iterable[Row]) -> str:
    """Markdown: a table for each workload."""
    parts = []
    for workload, of_workload in groupby(rows, key=lambda row: row.workload):
        lines = [
            f"## `{workload}`",
            "",
            "| variant | peak | in | categories | unknown | sum | process | beyond |",
            "|---|---:|---|---|---:|---|---:|---|",
            *map(_line, of_workload),
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(row: Row) -> str:
    account = row.account
    if account is None:
        return f"| {row.variant} | | | {row.reason} | | | | |"
    known = [(share.category, share.bytes) for share in account.categories if share.category != UNKNOWN]
    beyond = [(share.category, share.bytes) for share in account.outside_allocator]
    process = "not measured" if account.process_bytes is None else format_bytes(account.process_bytes)
    return (
        f"| {row.variant} | {format_bytes(account.peak_bytes)} | {account.peak_phase} | {_list(known)} "
        f"| {unknown(account):.3%} | {'; '.join(faults(account)) or 'yes'} | {process} | {_list(beyond)} |"
    )


def _list(parts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {format_bytes(size)}" for name, size in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", help=f"instead of {', '.join(WORKLOADS)}")
    parser.add_argument("--technique", default=",".join(TECHNIQUES), help="as for perfkit bench")
    parser.add_argument("--out", type=Path, help="folder for memory_balance.md and .json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, workload in enumerate(options.workload or WORKLOADS):
            analysis = run_memory(workload, options.technique, Path(folder) / str(number), report=_progress(workload))
            rows += rows_of(workload, analysis)
    print(table(rows))
    if options.out:
        (options.out / "memory_balance.md").write_text(TITLE + table(rows), encoding="utf-8")
        write_json(options.out / "memory_balance.json", Result(torch=version("torch"), rows=tuple(rows)))
    wrong = [row for row in rows if row.account is not None and faults(row.account)]
    if wrong:
        sys.exit(f"{len(wrong)} of {len(rows)} do not balance: {', '.join(row.variant for row in wrong)}")


def _progress(workload: str) -> Callable[[str], None]:
    return lambda line: print(f"{workload}: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
