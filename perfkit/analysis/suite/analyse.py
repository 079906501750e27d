"""From a suite's folder to everything a report shows: read, then facts, then figures, then verdicts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.analysis.findings.suite_findings import collect_suite_findings
from perfkit.analysis.machine_load import combine_loads
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.suite.cost import with_price
from perfkit.analysis.suite.facts import derived_names
from perfkit.analysis.suite.figures import figures_of
from perfkit.analysis.suite.pareto import pareto_front
from perfkit.analysis.suite.passes import Passes
from perfkit.analysis.suite.predicted import plan_beside, prediction_of
from perfkit.analysis.suite.provenance import provenance
from perfkit.analysis.suite.read_passes import read_passes
from perfkit.analysis.suite.runs import VariantRuns, baseline_names
from perfkit.analysis.suite.scaling import scaling_of
from perfkit.analysis.suite.sessions import sessions_of
from perfkit.analysis.suite.sweeps import sweeps_of
from perfkit.analysis.suite.variant import variant_of
from perfkit.analysis.suite.verdicts import Subject, verdicts_of
from perfkit.devices.ceiling import Ceiling, DeviceCeilings
from perfkit.devices.refuted import marked
from perfkit.record import Environment, WorkloadFacts
from perfkit.store.read import StoredSuite, read_suite


@dataclass(frozen=True)
class Examined:
    """An analysis with what it was made of: by name each variant's runs, and what its passes showed in whole."""

    analysis: Analysis
    of: Mapping[str, tuple[VariantRuns, Passes]]


def analyse(suite_folder: str | Path) -> Analysis:
    """Analyse a suite from its folder alone: no device, no user code, nothing executed.

    Whatever a run lacks (a trace, a memory pass, ceilings, a rank) is missing in the result with the reason.
    Raises `RunFormatError` for a folder or file that cannot be read.
    """
    return examine(read_suite(Path(suite_folder))).analysis


def examine(stored: StoredSuite, *, by_step: bool = False) -> Examined:
    """The same for who asks on: no trace has to be read twice. `by_step` keeps what each traced step did."""
    suite = stored.suite
    names = suite.variants or tuple(dict.fromkeys(run.variant for run in stored.runs))
    runs = {name: VariantRuns(name, tuple(run for run in stored.runs if run.variant == name)) for name in names}

    # A claim may refer to the baseline's value of a fact, so all variants derive the facts that any of them names.
    claims = (claim for variant_runs in runs.values() for record in variant_runs.records for claim in record.claims)
    derived = sorted(derived_names(claims))
    subjects, ceilings = _held(
        stored.ceilings, lambda known: {name: _subject(runs[name], known, derived, by_step=by_step) for name in names}
    )
    passes = {name: subject.passes for name, subject in subjects.items()}

    environment, workload = _environment(stored), _workload(stored)
    beside = plan_beside(stored, environment)
    baselines = baseline_names(runs.values(), suite.baselines)
    variants = []
    for name, subject in subjects.items():
        against = suite.baselines.get(name, name)
        verdicts = verdicts_of(
            subject,
            subjects.get(against) if against != name else None,
            is_baseline=name in baselines,
            precision=None if suite.sampling is None else suite.sampling.precision,
        )
        prediction = prediction_of(beside, subject)
        variants.append(variant_of(subject, verdicts, is_baseline=name in baselines, prediction=prediction))

    sessions = sessions_of(suite, runs, sorted(baselines))
    load = combine_loads(run.run.load for variant in runs.values() for run in variant.timed)
    scaling = scaling_of(suite, runs, variants, beside, None if load is None else load.cores)
    label = stored.runs[0].spec.workload.label if stored.runs else "no runs"
    analysis = Analysis(
        title=f"{label} on {environment.device_name}" if environment is not None else label,
        created_at=suite.created_at,
        perfkit=suite.perfkit,
        command=suite.command,
        workload=label,
        workload_description=workload.description if workload is not None else "",
        environment=environment,
        ceilings=ceilings,
        variants=tuple(variants),
        pareto=pareto_front(variants),
        sampling=suite.sampling,
        sessions=sessions,
        sweeps=sweeps_of(variants),
        searches=suite.searches,
        recomputations=suite.recomputations,
        scaling=scaling,
        load=load,
        findings=collect_suite_findings(variants, environment, ceilings, passes, suite.sampling, sessions, scaling),
        provenance=provenance(variants, environment, ceilings),
        warnings=(*suite.warnings, *filter(None, [beside.refused])),
    )
    if suite.price is not None:
        analysis = with_price(analysis, suite.price)
    return Examined(analysis, {name: (runs[name], passes[name]) for name in names})


def _subject(runs: VariantRuns, ceilings: DeviceCeilings | None, derived: Sequence[str], *, by_step: bool) -> Subject:
    passes = read_passes(runs, ceilings, derived, by_step=by_step)
    return Subject(runs, passes, figures_of(runs, passes, ceilings))


def _held(
    ceilings: DeviceCeilings | None, against: Callable[[DeviceCeilings | None], dict[str, Subject]]
) -> tuple[dict[str, Subject], DeviceCeilings | None]:
    """The subjects held against those ceilings that none of them refutes, which come back with the others marked."""
    subjects = against(ceilings)
    beaten = {ceiling for subject in subjects.values() for ceiling in _beaten(subject)}
    if ceilings is None or not beaten:
        return subjects, ceilings
    held = marked(ceilings, beaten)
    return against(held), held


def _beaten(subject: Subject) -> Iterator[Ceiling]:
    """The measured ceilings that its timed steps were faster than, and those that products of its traces were."""
    yield from subject.figures.refuted
    known = (trace.ceilings.ceilings for trace in subject.passes.traces if trace.ceilings is not None)
    yield from (ceiling for ceilings in known for ceiling in ceilings if ceiling.refuted)


def _environment(stored: StoredSuite) -> Environment | None:
    """Where the first rank that says so ran."""
    environments = (rank.record.environment for run in stored.runs for rank in run.ranks)
    return next((environment for environment in environments if environment is not None), None)


def _workload(stored: StoredSuite) -> WorkloadFacts | None:
    workloads = (rank.record.workload for run in stored.runs for rank in run.ranks)
    return next((workload for workload in workloads if workload is not None), None)
