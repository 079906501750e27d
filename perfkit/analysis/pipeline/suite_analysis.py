"""Builds the report data of a suite folder: read, then facts, figures and verdicts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.read_passes import read_passes
from perfkit.analysis.pipeline.suite_findings import collect_suite_findings
from perfkit.analysis.pipeline.untested_techniques import read_untested
from perfkit.analysis.pipeline.verify_commands import add_claim_commands, format_variant_command
from perfkit.analysis.suite.conclusion import find_conclusion
from perfkit.analysis.suite.cost import add_costs
from perfkit.analysis.suite.facts import find_derived_names
from perfkit.analysis.suite.machine_load import combine_loads
from perfkit.analysis.suite.pareto import find_pareto_front
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.prediction import build_prediction, read_suite_plan
from perfkit.analysis.suite.runs import VariantRuns, find_baseline_names
from perfkit.analysis.suite.sessions import summarize_sessions
from perfkit.analysis.suite.suite_provenance import list_provenance
from perfkit.analysis.suite.suite_scaling import build_scaling
from perfkit.analysis.suite.sweeps import find_sweeps
from perfkit.analysis.suite.timed_traces import apply_timed_clock
from perfkit.analysis.suite.variant import build_variant
from perfkit.analysis.suite.variant_figures import compute_figures
from perfkit.analysis.suite.variant_verdicts import VariantData, compute_verdicts
from perfkit.core.record.environment import Environment
from perfkit.core.record.rank_record import WorkloadFacts
from perfkit.devices.ceilings.ceiling import Ceiling, DeviceCeilings
from perfkit.devices.ceilings.exceeded_ceilings import mark_refuted
from perfkit.store.suite_reader import StoredSuite, read_suite


@dataclass(frozen=True)
class SuiteInspection:
    """An analysis with its parts: the runs of each variant by name, and the complete results of its passes."""

    analysis: Analysis
    of: Mapping[str, tuple[VariantRuns, PassResults]]


def analyze_suite(suite_folder: str | Path) -> Analysis:
    """Analyze a suite from its folder alone: no device, no user code, nothing executed.

    Whatever a run lacks (a trace, a memory pass, ceilings, a rank) is missing in the result with the reason.
    Raises `RunFormatError` for a folder or file that cannot be read.
    """
    return inspect_suite(read_suite(Path(suite_folder))).analysis


def inspect_suite(stored: StoredSuite, *, by_step: bool = False) -> SuiteInspection:
    """Analyze and keep the parts, so that no trace is read twice. `by_step` keeps the ops of each traced step."""
    suite = stored.suite
    names = suite.variants or tuple(dict.fromkeys(run.variant for run in stored.runs))
    runs = {name: VariantRuns(name, tuple(run for run in stored.runs if run.variant == name)) for name in names}

    # A claim may refer to the baseline's value of a fact, so all variants derive the facts that any of them names.
    claims = (claim for variant_runs in runs.values() for record in variant_runs.records for claim in record.claims)
    derived = sorted(find_derived_names(claims))
    subjects, ceilings = _apply_ceilings(
        stored.ceilings,
        lambda known: {name: _read_variant_data(runs[name], known, derived, by_step=by_step) for name in names},
    )
    passes = {name: subject.passes for name, subject in subjects.items()}

    environment, workload = _find_environment(stored), _find_workload(stored)
    suite_plan = read_suite_plan(stored, environment)
    specs = {name: of.runs[0].spec for name, of in runs.items() if of.runs}
    baselines = find_baseline_names(runs.values(), suite.baselines)
    variants = []
    for name, subject in subjects.items():
        against = suite.baselines.get(name, name)
        verdicts = compute_verdicts(
            subject,
            subjects.get(against) if against != name else None,
            is_baseline=name in baselines,
            precision=None if suite.sampling is None else suite.sampling.precision,
        )
        prediction = build_prediction(suite_plan, subject)
        built = build_variant(subject, verdicts, is_baseline=name in baselines, prediction=prediction)
        built = replace(built, verify=format_variant_command(built, specs.get(name)))
        variants.append(add_claim_commands(built, specs.get(name)))

    sessions = summarize_sessions(suite, runs, sorted(baselines))
    load = combine_loads(run.run.load for variant in runs.values() for run in variant.timed)
    scaling = build_scaling(suite, runs, variants, suite_plan, None if load is None else load.cores)
    label = stored.runs[0].spec.workload.label if stored.runs else "no runs"
    analysis = Analysis(
        title=f"{label} on {environment.device_name}" if environment is not None else label,
        created_at=suite.created_at,
        perfkit=suite.perfkit,
        command=suite.command,
        folder=str(stored.folder),
        workload=label,
        workload_description=workload.description if workload is not None else "",
        environment=environment,
        ceilings=ceilings,
        variants=tuple(variants),
        pareto=find_pareto_front(variants),
        sampling=suite.sampling,
        sessions=sessions,
        sweeps=find_sweeps(variants),
        searches=suite.searches,
        recomputations=suite.recomputations,
        scaling=scaling,
        load=load,
        conclusion=find_conclusion(suite, variants),
        untested=read_untested(stored.folder, variants),
        findings=collect_suite_findings(
            variants, environment, ceilings, passes, suite.sampling, sessions, scaling, specs
        ),
        provenance=list_provenance(variants, environment, ceilings),
        warnings=(*suite.warnings, *([] if suite_plan.refused is None else [suite_plan.refused])),
    )
    if suite.price is not None:
        analysis = add_costs(analysis, suite.price)
    return SuiteInspection(analysis, {name: (runs[name], passes[name]) for name in names})


def _read_variant_data(
    runs: VariantRuns, ceilings: DeviceCeilings | None, derived: Sequence[str], *, by_step: bool
) -> VariantData:
    passes = read_passes(runs, ceilings, derived, by_step=by_step)
    figures = compute_figures(runs, passes, ceilings)
    return VariantData(runs, apply_timed_clock(passes, figures.step_time), figures)


def _apply_ceilings(
    ceilings: DeviceCeilings | None, against: Callable[[DeviceCeilings | None], dict[str, VariantData]]
) -> tuple[dict[str, VariantData], DeviceCeilings | None]:
    """Compare the subjects with the ceilings that none of them refutes; returns them with the ceilings marked."""
    subjects = against(ceilings)
    beaten = {ceiling for subject in subjects.values() for ceiling in _find_exceeded_ceilings(subject)}
    if ceilings is None or not beaten:
        return subjects, ceilings
    marked = mark_refuted(ceilings, beaten)
    return against(marked), marked


def _find_exceeded_ceilings(subject: VariantData) -> Iterator[Ceiling]:
    """The measured ceilings that its timed steps were faster than, and those that products of its traces were."""
    yield from subject.figures.refuted
    known = (trace.ceilings.ceilings for trace in subject.passes.traces if trace.ceilings is not None)
    yield from (ceiling for ceilings in known for ceiling in ceilings if ceiling.exceeded_by)


def _find_environment(stored: StoredSuite) -> Environment | None:
    """The environment of the first rank that recorded one."""
    environments = (rank.record.environment for run in stored.runs for rank in run.ranks)
    return next((environment for environment in environments if environment is not None), None)


def _find_workload(stored: StoredSuite) -> WorkloadFacts | None:
    workloads = (rank.record.workload for run in stored.runs for rank in run.ranks)
    return next((workload for workload in workloads if workload is not None), None)
