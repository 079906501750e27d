"""The peak that perfkit measures against closed forms, for the `gpt` workload on a CPU.

    python -m benchmarks.memory_theory [--only amp] [--out benchmarks/results]

Trains each setup below with nothing but the memory pass and compares the account's peak with `gpt_memory`, which adds
it up tensor by tensor. Setups are chosen so that each moment that can be the peak is it in one of them; under autocast
only those at which no scratch buffer of oneDNN's 16-bit products is alive, which no form knows. What the account calls
workspace is left out of the comparison, and shown. Exits with 1 where a peak is more than 0.1 % off.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.gpt_memory import Training, peak
from benchmarks.memory_runs import accounts, bytes_of, run_memory
from perfkit.allocations import WORKSPACE
from perfkit.analysis.result import MemoryAccount
from perfkit.files import write_json
from perfkit.spec import Struct
from perfkit.workloads.gpt import Gpt

TOLERANCE = 0.001
TITLE = """# Peak memory of `gpt` on a CPU: measured against closed forms

    python -m benchmarks.memory_theory --out benchmarks/results

"""

# (parameters of gpt, variant): what makes another moment the peak is beside it.
SETUPS: tuple[tuple[dict[str, int], str], ...] = (
    ({}, "flash"),  # the MLP of the last block
    ({}, "baseline"),
    ({}, "ckpt+flash"),  # the MLP of the first block
    ({}, "ckpt"),
    ({"seq_len": 512}, "baseline"),  # attention matrices outgrow the MLP
    ({"seq_len": 512}, "ckpt"),
    ({"vocab": 4096}, "flash"),  # the loss
    ({"vocab": 4096}, "baseline"),
    ({"vocab": 4096}, "amp+flash"),
    ({"vocab": 4096}, "amp"),
    ({"vocab": 4096}, "amp+ckpt+flash"),  # the loss in forward: autocast still holds every block's weights
    ({"vocab": 4096}, "ckpt"),
    ({"seq_len": 64, "batch_size": 1}, "flash"),  # the optimizer
    ({"seq_len": 64, "batch_size": 1}, "amp"),
)


class Row(Struct):
    """One setup: `difference` is (measured - workspace) / theory - 1."""

    workload: str
    variant: str
    moment: str
    theory_bytes: int
    measured_bytes: int
    workspace_bytes: int
    difference: float


class Result(Struct):
    """What is written to `memory_theory.json`."""

    torch: str
    rows: tuple[Row, ...]


def training(parameters: dict[str, int], variant: str) -> Training:
    """The setup in the terms of the closed forms."""
    shape = msgspec.convert(parameters, Gpt).shape()
    techniques = variant.split("+")
    return Training(
        shape=shape,
        seq_len=parameters.get("seq_len", shape.positions),
        flash="flash" in techniques,
        amp="amp" in techniques,
        ckpt="ckpt" in techniques,
    )


def compare(parameters: dict[str, int], variant: str, account: MemoryAccount) -> Row:
    """A measured peak beside the theory's."""
    moment, expected = peak(training(parameters, variant))
    workspace = bytes_of(account, [WORKSPACE])
    return Row(
        workload=label(parameters),
        variant=variant,
        moment=moment,
        theory_bytes=expected,
        measured_bytes=account.peak_bytes,
        workspace_bytes=workspace,
        difference=(account.peak_bytes - workspace) / expected - 1,
    )


def label(parameters: dict[str, int]) -> str:
    """The workload as the command line takes it."""
    return ":".join(("gpt", *(f"{key}={value}" for key, value in parameters.items())))


def measure(setups: tuple[tuple[dict[str, int], str], ...], folder: Path) -> list[Row]:
    """All setups, those of one workload in one suite."""
    variants: dict[str, list[tuple[dict[str, int], str]]] = defaultdict(list)
    for parameters, variant in setups:
        variants[label(parameters)].append((parameters, variant))
    rows = []
    for number, (workload, wanted) in enumerate(variants.items()):
        found = accounts(run_memory(workload, ",".join(variant for _, variant in wanted), folder / str(number)))
        rows += [compare(parameters, variant, found[variant]) for parameters, variant in wanted]
    return rows


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        "| workload | variant | moment of the peak | theory, bytes | measured, bytes | of it workspace | difference |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| `{row.workload}` | {row.variant} | {row.moment} | {row.theory_bytes:,} | {row.measured_bytes:,} "
        f"| {row.workspace_bytes:,} | {row.difference:+.4%} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run only setups of this variant")
    parser.add_argument("--out", type=Path, help="folder for memory_theory.md and .json")
    options = parser.parse_args()
    setups = tuple(setup for setup in SETUPS if options.only in (None, setup[1]))
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
