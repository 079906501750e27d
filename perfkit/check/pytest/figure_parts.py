"""Lists the parts of a step's figures by name, stored with them to explain changes."""

from collections.abc import Iterable, Mapping

from perfkit.check.pytest.figure import format_amount, format_change
from perfkit.check.pytest.measure import StepMeasurement
from perfkit.check.pytest.memory_limit import format_origin

MEMORY, SAVED, OPS, KERNELS, FLOPS, BREAKS = "memory", "saved", "ops", "kernels", "flops", "graph break"

# Parts of each figure, with their unit.
PARTS_OF = {
    "peak_allocated": (MEMORY, "bytes"),
    "peak_above_start": (MEMORY, "bytes"),
    "saved_activations": (SAVED, "bytes"),
    "flops": (FLOPS, "FLOP"),
    "op_count": (OPS, ""),
    "kernel_count": (KERNELS, ""),
    "graph_breaks": (BREAKS, ""),
}

_SEPARATOR = ": "
# Memory by op and module has as many parts as the model has modules; the smallest are omitted.
_LEAST_SHARE = 0.01
_MOST_LINES = 8

Parts = dict[str, float]


def list_parts(measured: StepMeasurement) -> Parts:
    """Every part as `ops: aten::mm`, sorted."""
    parts: Parts = {}
    account = measured.memory.account
    if account is not None:
        sums: Parts = {}
        for row in account.rows:
            name = f"{row.category} {format_origin(row.op, row.module)}".rstrip()
            sums[name] = sums.get(name, 0.0) + row.bytes
        parts |= _name_parts(MEMORY, _drop_small_parts(sums))
    parts |= _name_parts(SAVED, _drop_small_parts(measured.memory.saved or {}))
    parts |= _name_parts(OPS, measured.ops.count_working())
    parts |= _name_parts(KERNELS, measured.ops.kernels)
    parts |= _name_parts(FLOPS, measured.flops.matrix_by_op)
    parts |= _name_parts(BREAKS, {_get_first_line(reason): count for reason, count in measured.graph_breaks.items()})
    return dict(sorted(parts.items()))


def format_largest_parts(parts: Parts, quantity: str) -> tuple[str, ...]:
    """Lines on the largest parts of a figure."""
    kind, unit = PARTS_OF[quantity]
    mine = sorted(_select_parts(parts, kind).items(), key=lambda item: (-item[1], item[0]))
    return _limit_lines((f"{format_amount(value, unit)}  {name}" for name, value in mine), len(mine))


def format_changed_parts(before: Mapping[str, float], after: Parts, quantity: str) -> tuple[str, ...]:
    """Lines on the changed parts of a figure, largest change first.

    A memory part on one side only may have been below the storage limit on the other.
    """
    kind, unit = PARTS_OF[quantity]
    old, new = _select_parts(before, kind), _select_parts(after, kind)
    differing = [name for name in old.keys() | new.keys() if old.get(name, 0) != new.get(name, 0)]
    differing.sort(key=lambda name: (-abs(new.get(name, 0) - old.get(name, 0)), name))
    return _limit_lines(
        (_format_changed_part(name, old.get(name, 0), new.get(name, 0), unit) for name in differing), len(differing)
    )


def _format_changed_part(name: str, before: float, after: float, unit: str) -> str:
    was = format_amount(before, unit).partition(" (")[0] if before else "none"
    now = format_amount(after, unit).partition(" (")[0] if after else "none"
    return f"{was} -> {now}  {name}" + (f"  ({format_change(before, after, unit)})" if before and after else "")


def _drop_small_parts(sizes: Mapping[str, float]) -> Mapping[str, float]:
    least = _LEAST_SHARE * sum(sizes.values())
    return {name: size for name, size in sizes.items() if size >= least}


def _name_parts(kind: str, values: Mapping[str, float]) -> Parts:
    return {f"{kind}{_SEPARATOR}{name}": float(value) for name, value in values.items()}


def _select_parts(parts: Mapping[str, float], kind: str) -> Parts:
    prefix = kind + _SEPARATOR
    return {name.removeprefix(prefix): value for name, value in parts.items() if name.startswith(prefix)}


def _limit_lines(lines: Iterable[str], count: int) -> tuple[str, ...]:
    shown = [line for line, _ in zip(lines, range(_MOST_LINES), strict=False)]
    more = count - len(shown)
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)


def _get_first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
