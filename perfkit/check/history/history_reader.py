"""Reads past figures from a folder's suites and checks, or from a baseline file's commits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.suite.runs import VariantRuns, get_largest_over_ranks, get_step_times, sum_over_ranks
from perfkit.check.judge.check_figures import PARITY, RunFigures, read_figures
from perfkit.check.judge.check_reader import read_check
from perfkit.check.judge.result import CheckedVariant
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.core.files import read_json
from perfkit.core.git import find_optional_repository, run_git
from perfkit.core.note import Note, make_note
from perfkit.core.record.environment import Environment
from perfkit.core.record.quantity import Quantity, get_value
from perfkit.core.spec import RunSpec
from perfkit.store.baseline import decode_baseline
from perfkit.store.layout import SPEC_FILE, SUITE_FILE, Suite
from perfkit.store.listing import find_marked_folders
from perfkit.store.pairs import ALTERNATING
from perfkit.store.suite_reader import StoredSuite, read_suite, read_suite_file
from perfkit.store.summary import CHECK_FILE

REPORT = "report.json"
BENCH, RUN, STORED = "perfkit bench", "perfkit run", "stored"

# Quantities that need traces or memory events, which are slow to read: only reports have them.
_IN_REPORTS = "CPU peak memory, kernels, waits and communication"


@dataclass(frozen=True, kw_only=True)
class RunReading:
    """The figures of one run of a variant. `how` is the way of measurement."""

    time: str
    source: str
    how: str
    workload: str
    variant: str
    environment: Environment | None
    revision: str | None
    exact: Mapping[str, float] = field(default_factory=dict)
    processes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass
class RunReadings:
    """All readings: folders by name, commits oldest first.

    `runs` counts suites, checks and commits; `notes` list omissions.
    """

    entries: list[RunReading] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    runs: int = 0


def read_all(path: Path) -> RunReadings:
    """Read a folder of runs, or a baseline file in a git repository. Raises `UsageError` if it cannot.

    Unreadable suites and checks are omitted with a note.
    """
    if path.is_file():
        return _read_baseline_commits(path)
    if not path.is_dir():
        raise UsageError(f"{path}: no such folder; expected one with checks or suites of `perfkit bench`")
    readings, bare, damaged = RunReadings(), 0, []
    for folder, marker in sorted(find_marked_folders(path, (CHECK_FILE, SUITE_FILE))):
        name = folder.relative_to(path).as_posix()
        try:
            if marker == CHECK_FILE:
                readings.entries += _read_check_side(folder, name)
            else:
                entries, reported = _read_suite_figures(folder, name)
                readings.entries += entries
                bare += not reported
        except RunFormatError as error:
            damaged.append(str(error))
            continue
        readings.runs += 1
    if not readings.runs and not damaged:
        raise UsageError(f"{path}: contains no suite.json or check.json; expected a folder of many runs")
    if damaged:
        text = f"{len(damaged)} of {readings.runs + len(damaged)} could not be read, first: {damaged[0]}"
        readings.notes.append(make_note("history.unreadable", text, files=len(damaged)))
    if bare:
        text = (
            f"{bare} of {readings.runs} runs have no complete report, so their {_IN_REPORTS} are unknown; "
            "create it with perfkit report"
        )
        readings.notes.append(make_note("history.no_report", text, runs=bare))
    return readings


def _read_check_side(folder: Path, name: str) -> Iterator[RunReading]:
    """The after side of a check; the before side has a run of its own."""
    check = read_check(folder)
    for variant in check.variants:
        exact = {item.quantity: item.after for item in variant.quantities if item.exact and item.after is not None}
        yield RunReading(
            time=check.created_at,
            source=name,
            how=variant.pairing or ALTERNATING,
            workload=variant.workload,
            variant=variant.variant,
            environment=check.after.environment,
            revision=check.after.revision or _get_revision(check.after.environment),
            exact=exact,
            processes=_get_pair_medians(variant)
            | {
                item.quantity: (item.after,)
                for item in variant.quantities
                if not item.exact and item.after is not None and not variant.pairs
            },
        )


def _get_pair_medians(variant: CheckedVariant) -> dict[str, tuple[float, ...]]:
    steps = tuple(median(series) for pair in variant.pairs if (series := get_step_times(pair.after)))
    cpu = tuple(median(pair.after.cpu_s) for pair in variant.pairs if pair.after.cpu_s)
    return {name: values for name, values in (("step_time", steps), ("cpu_time", cpu)) if values}


def _read_suite_figures(folder: Path, name: str) -> tuple[list[RunReading], bool]:
    """The readings of a suite, and True if they come from a complete report."""
    suite = read_suite_file(folder)
    report = _read_report(folder, suite)
    if report is not None:
        labels = _read_labels(folder, suite)
        return [
            _build_reading(
                suite,
                name,
                labels.get(variant.name, report.workload),
                variant.name,
                report.environment,
                read_figures(variant),
                attached=variant.loop is not None,
            )
            for variant in report.variants
        ], True
    return list(_read_records(read_suite(folder), name)), False


def _read_report(folder: Path, suite: Suite) -> Analysis | None:
    """The suite's report; None if missing, incomplete, or from another perfkit version."""
    if not (folder / REPORT).is_file():
        return None
    try:
        report = read_json(folder / REPORT, Analysis)
    except RunFormatError:
        return None
    runs = {run for variant in report.variants for run in variant.runs}
    complete = report.created_at == suite.created_at and runs == {run.path for run in suite.runs}
    return report if complete else None


def _read_labels(folder: Path, suite: Suite) -> dict[str, str]:
    labels: dict[str, str] = {}
    for entry in suite.runs:
        if entry.variant not in labels and ".." not in Path(entry.path).parts:
            labels[entry.variant] = _make_label(read_json(folder / entry.path / SPEC_FILE, RunSpec))
    return labels


def _make_label(spec: RunSpec) -> str:
    """A workload with its other settings: only equal labels share a series."""
    more = [spec.dtype] * (spec.dtype != "fp32") + [f"accumulate {spec.accumulation}"] * (spec.accumulation != 1)
    return ", ".join([spec.workload.label, *more])


def _read_records(stored: StoredSuite, name: str) -> Iterator[RunReading]:
    for variant in dict.fromkeys(run.variant for run in stored.runs):
        runs = VariantRuns(variant, tuple(run for run in stored.runs if run.variant == variant))
        if runs.main is not None:
            environment = next((record.environment for record in runs.records if record.environment), None)
            run_figures = _compute_record_figures(runs)
            label = _make_label(runs.main.spec)
            yield _build_reading(stored.suite, name, label, variant, environment, run_figures, attached=runs.attached)


def _compute_record_figures(runs: VariantRuns) -> RunFigures:
    """Figures from the records alone, without traces and memory events."""
    memory = [record.memory for record in runs.records if record.memory is not None]
    flops = [record.flops for record in runs.records if record.flops is not None]
    complete = len(runs.records) == runs.world_size
    none = ""
    exact: dict[str, Quantity] = {
        "peak_allocated": get_largest_over_ranks((peaks.allocated for peaks in memory), none),
        "peak_reserved": get_largest_over_ranks((peaks.reserved for peaks in memory), none),
        "flops": sum_over_ranks((count.hardware for count in flops), none),
    }
    processes = {
        "step_time": runs.list_median_steps(get_step_times),
        "cpu_time": runs.list_median_steps(lambda samples: samples.cpu_s),
    }
    known = {name: value for name, quantity in exact.items() if complete and (value := get_value(quantity)) is not None}
    breaks = runs.records[0].facts.get("graph_breaks")
    return RunFigures(
        exact=known if breaks is None else {**known, "graph_breaks": breaks},
        processes={name: tuple(values) for name, values in processes.items() if values},
    )


def _build_reading(
    suite: Suite, source: str, workload: str, variant: str, environment: Environment | None, run_figures: RunFigures, *,
    attached: bool,
) -> RunReading:  # fmt: skip
    return RunReading(
        time=suite.created_at,
        source=source,
        how=RUN if attached else BENCH,
        workload=workload,
        variant=variant,
        environment=environment,
        revision=_get_revision(environment),
        exact=run_figures.exact,
        processes=run_figures.processes,
    )


def _get_revision(environment: Environment | None) -> str | None:
    return None if environment is None else environment.git_revision


def _read_baseline_commits(path: Path) -> RunReadings:
    """A baseline's exact figures at each commit that changed it."""
    repository = find_optional_repository(path.resolve().parent)
    if repository is None:
        raise UsageError(f"{path}: not in a git repository; expected a folder of runs, or a baseline in git")
    inside = path.resolve().relative_to(repository.resolve()).as_posix()
    listed = run_git(repository, "log", "--reverse", "--format=%H%x00%cI", "--", inside)
    readings = RunReadings()
    for line in listed.text.splitlines():
        commit, _, time = line.partition("\0")
        held = run_git(repository, "show", f"{commit}:{inside}")
        if not held.ok:  # the commit that took it away
            continue
        try:
            baseline = decode_baseline(f"{inside} of {commit[:12]}", held.output)
        except RunFormatError as error:
            readings.notes.append(make_note("history.omitted_commit", f"omitted: {error}", error_id=error.id))
            continue
        readings.runs += 1
        readings.entries += [
            RunReading(
                time=time,
                source=commit[:12],
                how=STORED,
                workload=workload,
                variant=name,
                environment=baseline.environment,
                revision=commit[:12],
                exact={key: value for key, value in stored.exact.items() if key != PARITY},
            )
            for workload, variants in baseline.variants.items()
            for name, stored in variants.items()
        ]
    if not readings.runs:
        raise UsageError(f"{path}: no commit of {repository} contains a baseline there; commit it first")
    text = "times of a baseline are not shown: they are rounded and from different days"
    readings.notes.append(make_note("history.no_times", text))
    return readings
