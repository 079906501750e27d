"""Compares the working tree or a stored run with stored figures: a baseline file or another run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

import perfkit
from perfkit.check.cases import COUNTED, find_thresholds, plan_cases
from perfkit.check.check_options import ROUNDS, CheckOptions
from perfkit.check.config import CheckConfig
from perfkit.check.full_check import build_check, make_result_side
from perfkit.check.judge.check_figures import convert_from_stored, convert_to_stored
from perfkit.check.judge.result import Check
from perfkit.check.side_observations import ObservedCase, ObservedVariant, observe_case
from perfkit.check.sides.revision import read_working_tree
from perfkit.check.sides.side import make_side
from perfkit.check.variant_check import check_variant
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.note import list_texts, make_note
from perfkit.core.record.environment import Environment
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Schedule
from perfkit.store.baseline import Baseline, StoredVariant


@dataclass(frozen=True)
class FigureSource:
    """Stored figures: `label` is their name for users, `cases` are by workload."""

    label: str
    cases: Mapping[str, ObservedCase]

    @property
    def environment(self) -> Environment | None:
        environments = (variant.environment for case in self.cases.values() for variant in case.variants.values())
        return next((environment for environment in environments if environment is not None), None)


def make_baseline_source(baseline: Baseline, label: str) -> FigureSource:
    """The figures of a baseline file."""
    cases = {
        workload: ObservedCase(
            workload=workload,
            variants={
                name: ObservedVariant(figures=convert_from_stored(kept), environment=baseline.environment)
                for name, kept in variants.items()
            },
        )
        for workload, variants in baseline.variants.items()
    }
    return FigureSource(label, cases)


def read_run_source(folder: Path) -> FigureSource:
    """The figures of a folder of `perfkit bench` or `perfkit run`."""
    case = observe_case([folder])
    return FigureSource(str(folder), {case.workload: case})


def measure_working_tree(config: CheckConfig, out: Path, order: CheckOptions) -> FigureSource:
    """Measure the working tree around `config.root` into `out`; several times if times are gated."""
    from perfkit.check.sides.suites import measure_side  # not sooner: it imports torch

    side = make_side(read_working_tree(Path(config.root)), config.python_path)
    rounds, schedule = (ROUNDS, Schedule()) if order.timed else (1, COUNTED)
    cases: dict[str, ObservedCase] = {}
    for case in plan_cases(config, order.machine, schedule):
        for index in range(rounds):
            measure_side(
                side,
                case.request,
                out / case.folder / str(index),
                command=order.command,
                ceilings=order.load_ceilings(case),
                progress=order.make_progress_reporter(case, index, rounds),
            )
        observed = observe_case([out / case.folder / str(index) for index in range(rounds)])
        before = cases[case.workload].variants if case.workload in cases else {}
        wanted = {spec.variant: observed.variants[spec.variant] for spec in case.specs}
        cases[case.workload] = ObservedCase(workload=case.workload, variants={**before, **wanted})
    return FigureSource(side.label, cases)


def build_baseline(source: FigureSource, *, timed: bool) -> Baseline:
    """A baseline of the measured figures; `timed` False omits quantities that vary between processes.

    Raises `PerfkitError` for variants that did not complete training.
    """
    for case in source.cases.values():
        for name, observed in case.variants.items():
            if observed.result is not None and observed.result.status != RunStatus.OK:
                reason = f"{observed.result.status}: {observed.result.reason}"
                raise PerfkitError(f"{case.workload} {name} cannot be a baseline: {reason}")
    environment = source.environment
    if environment is None:
        raise PerfkitError("no run recorded its environment: no baseline to write")
    return Baseline(
        perfkit=perfkit.__version__,
        environment=environment,
        variants={
            case.workload: {name: _convert_variant(observed, timed) for name, observed in case.variants.items()}
            for case in source.cases.values()
        },
    )


def _convert_variant(variant: ObservedVariant, timed: bool) -> StoredVariant:
    kept = convert_to_stored(variant.figures)
    return kept if timed else replace(kept, processes={})


def compare_stored(
    config: CheckConfig, before: FigureSource, after: FigureSource, order: CheckOptions, *, began: float
) -> Check:
    """Judge everything present on both sides; the rest becomes notes.

    `began` is the check's monotonic start time. Raises `UsageError` if they have nothing in common.
    """
    variants, notes = [], []
    for workload, new in after.cases.items():
        old = before.cases.get(workload)
        for name, seconds in new.variants.items():
            if old is None or name not in old.variants:
                text = f"{workload} {name}: not in {before.label}, nothing to compare with"
                notes.append(make_note("check.only_after", text, workload=workload, variant=name))
                continue
            thresholds = find_thresholds(config, workload, name)
            variants.append(check_variant(workload, name, old.variants[name], seconds, thresholds, timed=order.timed))
    notes += [
        make_note(
            "check.only_before",
            f"{workload} {name}: in {before.label} but not measured now",
            workload=workload,
            variant=name,
        )
        for workload, case in before.cases.items()
        for name in case.variants
        if workload not in after.cases or name not in after.cases[workload].variants
    ]
    if not variants:
        raise UsageError(
            f"{before.label} and {after.label} have no workload and variant in common: {'; '.join(list_texts(notes))}"
        )
    return build_check(
        variants,
        command=order.command,
        before=make_result_side(before.label, before.environment),
        after=make_result_side(after.label, after.environment),
        fail_on=config.fail_on,
        seconds=monotonic() - began,
        notes=tuple(notes),
    )
