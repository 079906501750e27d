"""The parts of a run on a GPU, in the order in which they decide most for their time.

A part takes rows of one script of this folder. Every row has planned seconds, from `planned.json` (`plan_minutes`) or
from the row itself.
"""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.rows import Row

PLANNED = Path(__file__).parent / "planned.json"


@dataclass(frozen=True)
class Part:
    """Rows of `script` that are measured together; without `rows`, all of them. Parts of one `group` share minutes."""

    group: str
    script: str
    decides: str
    rows: tuple[str, ...] = ()


PARTS = (
    Part("a", "stands", "is everything installed; do the tests of tests/gpu pass", ("versions", "packages", "tests")),
    Part("a", "steps", "step times alone and by turns, beside their plans; MFU beside published figures"),
    Part("b", "overheads", "cost of attached, always-on and triggered recording; energy; lost kernels"),
    Part(
        "c", "counters", "modeled FLOPs and bytes beside Nsight Compute's, by class of ops",
        ("GEMM", "convolution", "attention", "elementwise", "optimizer"),
    ),
    Part("c", "pm_sampling", "do PM samples match modeled bytes and FLOPs"),
    Part("c", "recorders", "does CUPTI's monitor record what Kineto does, and samples beside it"),
    Part("d", "more_techniques", "do the techniques act that no GPU has run"),
    Part("d", "ranks", "hsdp, local_sgd, ssp and ddp hooks over NCCL; dumps of failed ranks"),
    Part("d", "fixtures", "small recordings for tests without a GPU"),
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """Planned seconds of a row, and the basis of that figure."""

    seconds: float
    basis: str


@dataclass(frozen=True)
class PlannedRow:
    """A row of a part, with its estimate."""

    part: Part
    row: Row
    estimate: Estimate

    @property
    def name(self) -> str:
        return f"{self.part.script} {self.row.name}"


def load_rows(part: Part) -> tuple[Row, ...]:
    """The rows of a part, in the order in which it names them; an unknown name is a ValueError."""
    table: Sequence[Row] = importlib.import_module(f"benchmarks.gpu.{part.script}").ROWS
    if not part.rows:
        return tuple(table)
    known = {row.name: row for row in table}
    unknown = [name for name in part.rows if name not in known]
    if unknown:
        raise ValueError(f"benchmarks.gpu.{part.script} has no row {', '.join(unknown)}; it has {', '.join(known)}")
    return tuple(known[name] for name in part.rows)


def estimate_row(row: Row) -> Estimate:
    """The row's own estimate; the longest time that it may take where it has none."""
    if row.planned_s is None:
        return Estimate(row.at_most_s, "longest time that the row may take: it has no estimate")
    return Estimate(row.planned_s, row.basis or "estimate of the row's author")


def read_estimates(path: Path = PLANNED) -> dict[tuple[str, str], Estimate]:
    """(Script, row) -> estimate, as `plan_minutes` wrote them; empty without the file."""
    if not path.exists():
        return {}
    scripts: Mapping[str, Mapping[str, Mapping[str, object]]] = json.loads(path.read_text())["rows"]
    return {
        (script, name): Estimate(float(str(entry["seconds"])), str(entry["basis"]))
        for script, rows in scripts.items()
        for name, entry in rows.items()
    }


def plan_rows(
    parts: Sequence[Part] = PARTS, estimates: Mapping[tuple[str, str], Estimate] | None = None
) -> list[PlannedRow]:
    """All rows of the parts in their order, each with its estimate."""
    known = read_estimates() if estimates is None else estimates
    return [
        PlannedRow(part, row, known.get((part.script, row.name)) or estimate_row(row))
        for part in parts
        for row in load_rows(part)
    ]
