"""A stored baseline: figures that a check compares with, in a file made for diffs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.core.files import decode_json, write_bytes
from perfkit.core.record.environment import Environment
from perfkit.core.spec import Struct

BASELINE_VERSION = 1
BASELINE_FILE = "perfkit-baseline.json"

# Significant digits that are kept of what varies. Times of processes differ by tenths of a percent on a quiet machine
# and by several on a shared one: at four digits rounding moves a figure by at most 0.05 %, below what any check finds.
PROCESS_DIGITS = 4

# And of losses: sums in another order change fp32 from the seventh digit on, and losses count as equal up to 1e-5.
LOSS_DIGITS = 6


class StoredVariant(Struct):
    """One variant's figures, as a check names its quantities.

    `exact` holds what every process counts alike; `processes` one figure a process of what varies; `losses` those of
    the first steps, None where one was not finite.
    """

    exact: dict[str, float] = {}
    processes: dict[str, tuple[float, ...]] = {}
    losses: tuple[float | None, ...] = ()


class Baseline(Struct):
    """The figures of one revision on one machine: `variants` by workload, then by variant."""

    schema_version: int = BASELINE_VERSION
    perfkit: str
    environment: Environment
    variants: dict[str, dict[str, StoredVariant]]


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises `UsageError` if there is none, `RunFormatError` for another file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such file; `perfkit check --update` writes a baseline", id="usage.no_file"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); expected a baseline written by `perfkit check --update`"
        ) from None
    return decode_baseline(str(path), data)


def decode_baseline(name: str, data: bytes) -> Baseline:
    """The baseline in the bytes of a file, which errors call `name`."""
    return decode_json(name, data, Baseline, remedy="write it again with `perfkit check --update`")


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline, atomically.

    Keys are sorted, each figure has its line, and noisy figures are rounded, so that a diff shows real changes.
    Baselines of equal figures are identical files. Empty values, the host's name and the revision (see the file's own
    history) are not written.
    """
    content = msgspec.to_builtins(_round_figures(baseline))
    # Unreadable values are left out, and the host's name changes with every machine and says nothing.
    kept = (item for item in content["environment"].items() if item[0] != "git_revision")
    known = {key: value for key, value in kept if value not in (None, {})}
    content["environment"] = {**known, "hostname": ""}
    content["variants"] = {
        workload: {name: {key: value for key, value in figures.items() if value} for name, figures in variants.items()}
        for workload, variants in content["variants"].items()
    }
    write_bytes(path, ("\n".join(_format_lines(content)) + "\n").encode())


def _round_figures(baseline: Baseline) -> Baseline:
    return replace(
        baseline,
        variants={
            workload: {name: _round_variant(variant) for name, variant in variants.items()}
            for workload, variants in baseline.variants.items()
        },
    )


def _round_variant(variant: StoredVariant) -> StoredVariant:
    return StoredVariant(
        exact=variant.exact,
        processes={
            name: tuple(_round_to_digits(value, PROCESS_DIGITS) for value in values)
            for name, values in variant.processes.items()
        },
        losses=tuple(None if loss is None else _round_to_digits(loss, LOSS_DIGITS) for loss in variant.losses),
    )


def _round_to_digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _format_lines(value: Any, indent: int = 0, before: str = "", after: str = "") -> Iterator[str]:
    """JSON with a line for every entry of an object; arrays hold plain values and stay on theirs."""
    margin = " " * indent
    if not isinstance(value, Mapping) or not value:
        yield f"{margin}{before}{json.dumps(_convert_counts(value), ensure_ascii=False)}{after}"
        return
    yield f"{margin}{before}{{"
    last = max(value)
    for key in sorted(value):
        name = json.dumps(key, ensure_ascii=False)
        yield from _format_lines(value[key], indent + 2, f"{name}: ", "" if key == last else ",")
    yield f"{margin}}}{after}"


def _convert_counts(value: Any) -> Any:
    """Counts without a point: 86440308.0 is 86440308."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return [_convert_counts(item) for item in value] if isinstance(value, list | tuple) else value
