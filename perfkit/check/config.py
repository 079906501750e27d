"""Reads the configuration of a check: `[tool.perfkit.check]` of pyproject.toml, or `[check]` of perfkit.toml.

The keys of a case are those of `CheckCase`; dashes and underscores are equivalent. A case's threshold overrides the one
for all cases, which overrides the quantity's default.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from perfkit.check.judge.check_thresholds import Threshold, get_default_thresholds, parse_threshold
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity
from perfkit.check.judge.result import Verdict
from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.parse_units import parse_amount
from perfkit.core.spec import BASELINE, Struct
from perfkit.store.baseline import BASELINE_FILE

OWN_FILE, SHARED_FILE = "perfkit.toml", "pyproject.toml"
EXAMPLE = """[[tool.perfkit.check.cases]]
workload = "train.py:build"
technique = "baseline,amp"
"""

T = TypeVar("T", bound=Struct)

# Marks a quantity that is reported and cannot fail.
UNGATED = "off"

# Thresholds by quantity; None if not gated.
Thresholds = dict[str, Threshold | None]

_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


class CheckCase(Struct):
    """A workload and its variants to check, as written: `technique` as for `perfkit bench --technique`."""

    workload: str
    technique: str = BASELINE
    batch_size: int | None = None
    seq_len: int | None = None
    dtype: str = "fp32"
    accumulate: int = 1
    world_size: int | None = None
    seed: int = 0
    thresholds: Thresholds = {}

    def resolve_thresholds(self) -> Thresholds:
        """Thresholds by quantity: the case's, else the default."""
        return {**get_default_thresholds(), **self.thresholds}


class CheckConfig(Struct):
    """A whole configuration. Each case has its resolved thresholds; `thresholds` are those for all cases.

    `baseline` is the stored baseline file, relative to `root`, the folder of the workloads. `budget_s` is the time for
    sampling, shared by all variants. `python_path` are folders, relative to a side's root, that precede all others in
    that side's import path. `fail_on` is the lowest failing verdict: `fail`, or `worse` for a certain worsening within
    the threshold.
    """

    root: str
    cases: tuple[CheckCase, ...] = ()
    thresholds: Thresholds = {}
    baseline: str = BASELINE_FILE
    device: str = "auto"
    threads: int | None = None
    budget_s: float = 180.0
    python_path: tuple[str, ...] = ()
    exit_inconclusive: int = 3
    fail_on: Verdict = Verdict.FAIL


class _ConfigFile(Struct):
    """A configuration as it is written."""

    cases: tuple[dict[str, Any], ...] = ()
    thresholds: dict[str, str | int | float] = {}
    baseline: str = BASELINE_FILE
    device: str = "auto"
    threads: int | None = None
    budget: str = "3min"
    python_path: tuple[str, ...] = ()
    inconclusive: int = 3
    fail_on: Literal["fail", "worse"] = "fail"


def load_config(folder: Path) -> CheckConfig:
    """The configuration for `folder`: from the nearest file above it, or one without cases.

    Raises `UsageError` with the file and the invalid key.
    """
    for root in (folder.resolve(), *folder.resolve().parents):
        for name in (OWN_FILE, SHARED_FILE):
            table = _read_table(root / name)
            if table is not None:
                return _build_config(table, root, root / name)
    return CheckConfig(root=str(folder.resolve()))


def parse_thresholds(written: Mapping[str, str | int | float], where: str) -> Thresholds:
    """Thresholds by quantity. Raises `UsageError` with the invalid key."""
    thresholds: Thresholds = {}
    for key, text in written.items():
        name = key.replace("-", "_")
        if name not in _BY_NAME:
            error = make_unknown_name_error("quantity", key, _BY_NAME)
            raise UsageError(f"{where}: {error}")
        thresholds[name] = _parse_quantity_threshold(_BY_NAME[name], text, where)
    return thresholds


def parse_budget(text: str, where: str) -> float:
    """Seconds of `3min`, `90s`."""
    try:
        seconds = parse_amount(text, "s")
    except UsageError as error:
        raise UsageError(f"{where}: budget: {error}") from None
    if seconds <= 0:
        raise UsageError(f"{where}: budget: {text!r} leaves no time to measure; increase it, for example to 3min")
    return seconds


def _parse_quantity_threshold(quantity: GatedQuantity, text: str | int | float, where: str) -> Threshold | None:
    if text == UNGATED:
        return None
    try:
        return parse_threshold(text, quantity.unit, more_is_worse=quantity.more_is_worse)
    except UsageError as error:
        raise UsageError(f"{where}: {quantity.name}: {error}") from None


def _read_table(path: Path) -> dict[str, Any] | None:
    """The check's table in a file, or None."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: invalid TOML: {error}") from None
    for key in () if path.name == OWN_FILE else ("tool", "perfkit"):
        content = content.get(key, {})
    return content.get("check")


def _build_config(table: Mapping[str, Any], root: Path, path: Path) -> CheckConfig:
    written = _convert_table(_ConfigFile, table, str(path))
    common = parse_thresholds(written.thresholds, str(path))
    return CheckConfig(
        root=str(root),
        cases=tuple(
            _build_case(case, common, f"{path}: case {number}") for number, case in enumerate(written.cases, start=1)
        ),
        thresholds=common,
        baseline=written.baseline,
        device=written.device,
        threads=written.threads,
        budget_s=parse_budget(written.budget, str(path)),
        python_path=written.python_path,
        exit_inconclusive=written.inconclusive,
        fail_on=Verdict(written.fail_on),
    )


def _build_case(table: Mapping[str, Any], common: Thresholds, where: str) -> CheckCase:
    own = parse_thresholds(table.get("thresholds", {}), where)
    case = _convert_table(CheckCase, {key: value for key, value in table.items() if key != "thresholds"}, where)
    return msgspec.structs.replace(case, thresholds={**common, **own})


def _convert_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    fields = {field.name for field in msgspec.structs.fields(kind)}
    plain = {key.replace("-", "_"): value for key, value in table.items()}
    for key in plain:
        if key not in fields:
            error = make_unknown_name_error("key", key, fields)
            raise UsageError(f"{where}: {error}")
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
