"""From a suite's folder to everything a report shows."""

from collections.abc import Iterable
from pathlib import Path

from perfkit.analysis.findings.of_suite import suite_findings
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.facts import derived_names
from perfkit.analysis.suite.pareto import pareto_front
from perfkit.analysis.suite.passes import read_passes
from perfkit.analysis.suite.provenance import provenance
from perfkit.analysis.suite.runs import VariantRuns, baseline_names
from perfkit.analysis.suite.variant import Subject, build_variant
from perfkit.record import Environment, WorkloadFacts
from perfkit.store.read import StoredSuite, read_suite


def analyse(suite_folder: Path) -> Analysis:
    """Analyse a suite from its folder alone: no device, no user code, nothing executed.

    Whatever a run lacks (a trace, a memory pass, ceilings, a rank) is missing in the result with the reason.
    Raises `RunFormatError` for a folder or file that cannot be read.
    """
    stored = read_suite(suite_folder)
    suite = stored.suite
    names = suite.variants or tuple(dict.fromkeys(run.variant for run in stored.runs))
    subjects = _subjects(stored, names)
    baselines = baseline_names((subject.runs for subject in subjects.values()), suite.baselines)
    variants = tuple(
        build_variant(
            subjects[name],
            subjects.get(suite.baselines.get(name, "")) if suite.baselines.get(name) != name else None,
            is_baseline=name in baselines,
            ceilings=stored.ceilings,
        )
        for name in names
    )
    environment, workload = _environment(stored), _workload(stored)
    label = stored.runs[0].spec.workload.label if stored.runs else "no runs"
    return Analysis(
        title=f"{label} on {environment.device_name}" if environment is not None else label,
        created_at=suite.created_at,
        perfkit=suite.perfkit,
        command=suite.command,
        workload=label,
        workload_description=workload.description if workload is not None else "",
        environment=environment,
        ceilings=stored.ceilings,
        variants=variants,
        pareto=pareto_front(variants),
        findings=suite_findings(
            variants, environment, stored.ceilings, {name: each.passes for name, each in subjects.items()}
        ),
        provenance=provenance(variants, environment, stored.ceilings),
        warnings=suite.warnings,
    )


def analyse_variant(stored: StoredSuite, name: str) -> Variant:
    """One variant of a suite, with what it is compared with there; nothing else of the suite is read."""
    baseline = stored.suite.baselines.get(name, name)
    subjects = _subjects(stored, dict.fromkeys((name, baseline)))
    return build_variant(
        subjects[name],
        subjects[baseline] if baseline != name else None,
        is_baseline=name == baseline,
        ceilings=stored.ceilings,
    )


def _subjects(stored: StoredSuite, names: Iterable[str]) -> dict[str, Subject]:
    runs = {name: VariantRuns(name, tuple(run for run in stored.runs if run.variant == name)) for name in names}
    # A claim may refer to the baseline's value of a fact, so all variants derive the facts that any of them names.
    derived = derived_names(claim for each in runs.values() for record in each.records for claim in record.claims)
    return {name: Subject(each, read_passes(each, stored.ceilings, sorted(derived))) for name, each in runs.items()}


def _environment(stored: StoredSuite) -> Environment | None:
    """Where the first rank that says so ran."""
    found = (rank.record.environment for run in stored.runs for rank in run.ranks)
    return next((environment for environment in found if environment is not None), None)


def _workload(stored: StoredSuite) -> WorkloadFacts | None:
    found = (rank.record.workload for run in stored.runs for rank in run.ranks)
    return next((workload for workload in found if workload is not None), None)
