"""Techniques that no GPU has run yet.

    python -m benchmarks.gpu.more_techniques --device cuda [--apart]

`together` runs one bench per technique, all at the same time: claims and losses stand, and step times do not. `--apart`
adds a row for each. A row is wrong where a variant failed, a claim does not hold or losses differ; a variant whose
package is missing is listed as skipped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.bench_results import Command, bench_command, describe_variant, read_variants, run_together
from benchmarks.gpu.ranks import describe_exit
from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main

if TYPE_CHECKING:
    from perfkit.analysis.model.suite import Variant

LIMIT_S = {"cuda": 100.0, "cpu": 540.0}
SIZES = {
    "cuda": ("-w", "gpt:size=nano", "--batch-size", "8", "--seq-len", "128", "--no-calibrate"),
    "cpu": ("-w", "gpt:size=nano", "--batch-size", "1", "--seq-len", "32", "--no-calibrate"),
}


@dataclass(frozen=True)
class Tried:
    """A variant, and whether its losses must agree with the baseline's: those of another optimizer do not."""

    variant: str
    same_losses: bool = True
    on_cpu: bool = True


# gpt nano has four shapes of products, so that max-autotune has few kernels to choose.
TRIED = {
    "max-autotune": Tried("compile:mode=max-autotune-no-cudagraphs", on_cpu=False),  # minutes on two cores
    "sparse24": Tried("bf16+sparse24", same_losses=False),
    "soap": Tried("optim:use=soap", same_losses=False),
    "liger": Tried("fused_ce:backend=liger"),
}


def measure_techniques(names: Sequence[str], setting: Setting) -> Found:
    """Run the benches at the same time and check each variant."""
    setting.needs_perfkit()
    chosen = [name for name in names if setting.device == "cuda" or TRIED[name].on_cpu]
    if not chosen:
        raise Skipped("too slow on a CPU")
    commands = {name: _command(name, setting) for name in chosen}
    ended = run_together(commands, LIMIT_S[setting.device])
    figures: dict[str, Any] = {}
    lines, wrong = [], []
    for name in chosen:
        folder = setting.folder / name / "suite"
        if not (folder / "report.json").exists():
            figures[name] = {"output": ended[name].tail}
            wrong.append(f"{name}: no report: {describe_exit(ended[name])}")
            continue
        figures[name], line, reasons = check_variant(TRIED[name], read_variants(folder))
        lines.append(f"{name}: {line}")
        wrong += [f"{name}: {reason}" for reason in reasons]
    if all(each.get("status") == "skipped" for each in figures.values()):
        raise Skipped("; ".join(lines))
    return Found(figures, lines, wrong)


def check_variant(tried: Tried, variants: Mapping[str, "Variant"]) -> tuple[dict[str, Any], str, list[str]]:
    """The variant's figures, a line about it, and its contradictions; none where it was skipped."""
    from perfkit.core.record.rank_record import RunStatus

    variant = variants[tried.variant]
    if variant.status == RunStatus.SKIPPED:
        return {"status": "skipped", "reason": variant.reason}, f"skipped: {variant.reason}", []
    figures, wrong = describe_variant(variant)
    if tried.same_losses and variant.parity.verdict == "differs":
        wrong.append(f"losses differ by {variant.parity.max_relative}")
    claims = [claim.holds for claim in variant.claims]
    line = f"{claims.count(True)} of {len(claims)} claims, losses {variant.parity.verdict}"
    return figures, line, wrong


def _command(name: str, setting: Setting) -> Command:
    folder = setting.folder / name
    folder.mkdir()
    arguments = (*SIZES[setting.device], "--technique", TRIED[name].variant)
    return Command(bench_command(setting.device, *arguments, out=folder / "suite"), folder / "output.log")


APART = tuple(Row(name, partial(measure_techniques, (name,)), LIMIT_S["cuda"] + 30) for name in TRIED)
ROWS = (
    Row(
        "together", partial(measure_techniques, tuple(TRIED)), LIMIT_S["cuda"] + 30, planned_s=40,
        basis="two runs of 15 s; max-autotune of four shapes in about 20 s of 16 cores",
    ),
)  # fmt: skip

if __name__ == "__main__":
    main("more_techniques", __doc__, ROWS, {"apart": APART})
