"""The peak that perfkit measures against closed forms, for the `gpt` workload on a CPU.

    python -m benchmarks.memory_theory [--only amp] [--out benchmarks/results]

Trains each setup below with nothing but the memory pass and compares the account's peak with `gpt_memory`, which adds
it up tensor by tensor. Setups are chosen so that each moment that can be the peak is it in one of them. No form knows
the scratch buffers of oneDNN's 16-bit products: compared is the peak of all but what the account calls workspace. Exits
with 1 where that is more than 0.1 % off.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from perfkit.core.files import write_json
from perfkit.core.spec import Struct
from tests.fixtures.memory_oracles.memory_runs import over_time, run_memory
from tests.fixtures.memory_oracles.setups import Row, Setup, compare, label

TOLERANCE = 0.001
TITLE = """# Peak memory of `gpt` on a CPU: measured against closed forms

    python -m benchmarks.memory_theory --out benchmarks/results

"""


# What makes another moment the peak is beside it.
SETUPS = (
    Setup({}, "flash"),  # the MLP of the last block
    Setup({}, "baseline"),
    Setup({}, "amp"),
    Setup({}, "amp+flash"),
    Setup({}, "ckpt+flash"),  # the MLP of the first block
    Setup({}, "ckpt"),
    Setup({}, "amp+ckpt"),
    Setup({}, "baseline", 2),  # all gradients are there throughout
    Setup({}, "flash", 2),
    Setup({}, "amp", 2),
    Setup({}, "ckpt", 2),
    Setup({"seq_len": 512}, "baseline"),  # attention matrices outgrow the MLP
    Setup({"seq_len": 512}, "baseline", 2),
    Setup({"seq_len": 512}, "ckpt"),
    Setup({"seq_len": 512}, "amp+ckpt"),
    Setup({"vocab": 4096}, "flash"),  # the loss
    Setup({"vocab": 4096}, "flash", 2),
    Setup({"vocab": 4096}, "baseline"),
    Setup({"vocab": 4096}, "amp+flash"),
    Setup({"vocab": 4096}, "amp"),
    Setup({"vocab": 4096}, "amp+ckpt+flash"),  # the loss in forward: autocast still holds every block's weights
    Setup({"vocab": 4096}, "ckpt"),
    Setup({"seq_len": 64, "batch_size": 1}, "flash"),  # the optimizer
    Setup({"seq_len": 64, "batch_size": 1}, "amp"),
)


class Result(Struct):
    """What is written to `memory_theory.json`."""

    torch: str
    rows: tuple[Row, ...]


def measure(setups: Sequence[Setup], folder: Path) -> list[Row]:
    """All setups, those of one workload and accumulation in one suite."""
    rows = []
    ordered = sorted(setups, key=_suite)
    for number, ((workload, accumulation), group) in enumerate(groupby(ordered, key=_suite)):
        suite, wanted = folder / str(number), list(group)
        run_memory(workload, ",".join(setup.variant for setup in wanted), suite, threads=1, accumulation=accumulation)
        rows += [compare(setup, over_time(suite, setup.variant)) for setup in wanted]
    return rows


def _suite(setup: Setup) -> tuple[str, int]:
    return label(setup.parameters), setup.accumulation


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        "| workload | variant | microbatches | moment of the peak | theory, bytes | measured without workspace | "
        "difference | measured with workspace |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| `{row.workload}` | {row.variant} | {row.accumulation} | {row.moment} | {row.theory_bytes:,} "
        f"| {row.without_workspace_bytes:,} | {row.difference:+.4%} | {row.peak_bytes:,} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run only setups of this variant")
    parser.add_argument("--out", type=Path, help="folder for memory_theory.md and .json")
    options = parser.parse_args()
    setups = tuple(setup for setup in SETUPS if options.only in (None, setup.variant))
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(setups, Path(folder))
    print(table(rows))
    if options.out:
        (options.out / "memory_theory.md").write_text(f"{TITLE}{table(rows)}", encoding="utf-8")
        write_json(options.out / "memory_theory.json", Result(torch=version("torch"), rows=tuple(rows)))
    wrong = [row for row in rows if abs(row.difference) > TOLERANCE]
    if wrong:
        sys.exit(f"{len(wrong)} of {len(rows)} peaks are more than {TOLERANCE:.1%} off")


if __name__ == "__main__":
    main()
