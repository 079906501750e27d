"""Compares runs of any kind with the first."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import perfkit
from perfkit.analysis.compare.compared_figures import compare_figures
from perfkit.analysis.compare.device_clocks import describe_clock_change
from perfkit.analysis.compare.environments import ComparisonEffect, compare_environments
from perfkit.analysis.compare.ranks import select_common_rank
from perfkit.analysis.compare.sides import LoadedSide, name_sides
from perfkit.analysis.compare.variants import compare_variants, find_unshared_variants
from perfkit.analysis.difference.difference import compare_traces, drop_trace_tables
from perfkit.analysis.model.comparison import ComparedRun, Comparison, EnvironmentMismatch
from perfkit.analysis.pipeline.load_side import load_side
from perfkit.core.errors import UsageError
from perfkit.core.note import Note, make_note
from perfkit.devices.accelerator import is_cpu
from perfkit.store.summary import MOST_COMPARED

# What no environment has: it is of the order, not of the machine. Times and counts of other work say nothing.
WORKLOAD = "workload"


def compare_runs(runs: Sequence[str | Path], *, anyway: bool = False, command: str = "") -> Comparison:
    """Hold runs against the first of them.

    Args:
        runs: two or more: folders of `perfkit bench`, `run` and `attach`ed loops (`FOLDER@VARIANT` for one of several
            variants), of reports on traces and memory, trace files, recordings of memory.
        anyway: compare runs on devices of different kinds, too.
        command: the command line, for the report.

    `UsageError` names a key in which runs differ so that nothing of them can be compared, or what is no run.
    """
    if not 2 <= len(runs) <= MOST_COMPARED:
        raise UsageError(f"name 2 to {MOST_COMPARED} runs to compare; got {len(runs)}")
    compared = select_common_rank([load_side(str(run)) for run in runs])
    loaded = name_sides(compared.runs)
    sides = tuple(loaded_side.side for loaded_side in loaded)
    differing = tuple(entry for side in sides[1:] for entry in _compare_conditions(sides[0], side))
    if not anyway:
        _refuse_other_kinds(differing)
    first = sides[0].trace
    return Comparison(
        title=" vs ".join([", ".join(side.name for side in sides[1:]), sides[0].name]),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        runs=tuple(map(str, runs)),
        sides=sides,
        figures=compare_figures(loaded),
        differences=tuple(
            drop_trace_tables(compare_traces(side.trace, first))
            for side in sides[1:]
            if first is not None and side.trace is not None
        ),
        environment_mismatches=differing,
        warnings=tuple(_collect_warnings(loaded, differing)),
        rank_note=compared.note,
        ranks=compared.steps,
        variants=compare_variants(loaded),
        unshared_variants=find_unshared_variants(loaded),
    )


def _compare_conditions(first: ComparedRun, side: ComparedRun) -> Iterator[EnvironmentMismatch]:
    """Compare the environments; without one, the devices that the traces name."""
    if first.workload and side.workload and first.workload != side.workload:
        yield EnvironmentMismatch(
            run=side.name, key=WORKLOAD, first_value=first.workload, run_value=side.workload, affects_times=True
        )
    if first.environment is not None and side.environment is not None:
        for entry in compare_environments(first.environment, side.environment):
            times = entry.effect is not ComparisonEffect.NOTED
            yield EnvironmentMismatch(
                run=side.name, key=entry.key, first_value=entry.before, run_value=entry.after, affects_times=times
            )
        return
    for key, ours, theirs in (
        ("device", first.device, side.device),
        ("device_name", first.device_name, side.device_name),
    ):
        if ours and theirs and ours != theirs:
            yield EnvironmentMismatch(run=side.name, key=key, first_value=ours, run_value=theirs, affects_times=True)


def _refuse_other_kinds(differing: Sequence[EnvironmentMismatch]) -> None:
    other = next(
        (
            entry
            for entry in differing
            if entry.key == "device" and is_cpu(entry.first_value) != is_cpu(entry.run_value)
        ),
        None,
    )
    if other is not None:
        raise UsageError(
            f"{other.run} ran on a different kind of device ({other.key}: {other.first_value} -> {other.run_value}): "
            "not comparable. Name runs on one kind of device, or add --anyway"
        )


def _collect_warnings(loaded: Sequence[LoadedSide], differing: Sequence[EnvironmentMismatch]) -> Iterator[Note]:
    for run in loaded[1:]:
        keys = [entry for entry in differing if entry.run == run.side.name and entry.affects_times]
        if keys:
            changes = "; ".join(f"{entry.key}: {entry.first_value} -> {entry.run_value}" for entry in keys)
            text = f"{run.side.name} ran under different conditions, which affect times ({changes})"
            yield make_note("comparison.conditions", text, run=run.side.name)
        variants = (loaded[0].variant, run.variant)
        clocks = describe_clock_change(*(None if variant is None else variant.clocks for variant in variants))
        if clocks:
            text = f"{run.side.name} ran at another GPU clock, which affects times ({clocks})"
            yield make_note("comparison.gpu_clock", text, run=run.side.name)
    for run in loaded:
        variant = run.variant
        if variant is not None and variant.reason:
            text = f"{run.side.name} ({variant.status.value}): {variant.reason}"
            yield make_note("comparison.run_ended", text, run=run.side.name, reason_id=variant.reason_id)
        if variant is not None and variant.active_in_part:
            text = f"{run.side.name}: its techniques acted in part"
            yield make_note("comparison.partial_effect", text, run=run.side.name)
        elif variant is not None and variant.active is False:
            yield make_note("comparison.no_effect", f"{run.side.name}: its techniques had no effect", run=run.side.name)
