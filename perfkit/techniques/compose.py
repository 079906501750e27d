"""From the techniques as named to techniques in order, with everything checked that can be checked without a model."""

from collections.abc import Iterable, Sequence

from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec, WorkloadSpec, convert_params
from perfkit.techniques.base.rank_sharing import check_shares
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import Purpose, Technique, format_technique


def check_compatibility(techniques: Sequence[Technique]) -> None:
    """Raise `UsageError` for the first pair that clashes or requirement that is not met."""
    for technique in techniques:
        for conflict in technique.conflicts:
            other = _find_technique(conflict.other, techniques)
            if other is not None and _has_params(technique, conflict.when):
                raise UsageError(
                    f"{format_technique(technique)} and {format_technique(other)} cannot be combined: {conflict.reason}"
                )
    for technique in techniques:
        for needed in technique.requirements:
            if _has_params(technique, needed.when) and _find_technique(needed.technique, techniques) is None:
                raise UsageError(
                    f"{technique.name}{needed.when and ':'}{needed.when} needs {needed.technique}: {needed.reason}; "
                    f"use {format_technique(technique)}+{needed.technique}"
                )


def _find_technique(pattern: str, techniques: Iterable[Technique]) -> Technique | None:
    """The technique that matches a pattern such as `offload:what=parameters`."""
    name, _, params = pattern.partition(":")
    return next((each for each in techniques if each.name == name and _has_params(each, params)), None)


def _has_params(technique: Technique, params: str) -> bool:
    """True if the parameters have these values, such as `what=parameters`; always if there are none."""
    values = (param.split("=", 1) for param in filter(None, params.split(":")))
    return all(str(getattr(technique, key)) == value for key, value in values)


def compose_techniques(specs: Sequence[TechniqueSpec]) -> tuple[Technique, ...]:
    """Techniques with typed parameters, sorted by stage.

    Raises `UsageError` for an unknown name or parameter, a technique given twice, and techniques that do not go
    together; the message names both and the reason.
    """
    techniques: list[Technique] = []
    for spec in specs:
        technique: Technique = convert_params(TECHNIQUES.load(spec.name), "technique", spec.name, spec.params)
        if any(technique.name == other.name for other in techniques):
            raise UsageError(
                f"the technique {spec.name!r} is given twice in {'+'.join(item.label for item in specs)!r}; "
                "give it once"
            )
        techniques.append(technique)
    order = {name: place for place, name in enumerate(TECHNIQUES.list_names())}
    # Those of several ranks exclude most: of several clashes, theirs is reported.
    check_compatibility(
        sorted(techniques, key=lambda each: (each.purpose is not Purpose.RANKS, each.purpose_place, order[each.name]))
    )
    check_shares(techniques)
    wanting = [technique for technique in techniques if technique.describe_open_params()]
    if len(wanting) > 1:
        raise UsageError(
            f"{' and '.join(map(format_technique, wanting))} cannot be combined: each needs the others fixed "
            "while it searches"
        )
    return tuple(sorted(techniques, key=lambda technique: (technique.stage, order[technique.name])))


def are_compatible(specs: Sequence[TechniqueSpec]) -> bool:
    """True if `compose_techniques` takes them."""
    try:
        compose_techniques(specs)
    except UsageError:
        return False
    return True


def find_open_technique(specs: Sequence[TechniqueSpec]) -> Technique | None:
    """The technique of a combination of which something is to be found before it is applied; None if all is given.

    Raises what `compose_techniques` does.
    """
    return next((technique for technique in compose_techniques(specs) if technique.describe_open_params()), None)


def resize_workload(workload: WorkloadSpec, specs: Sequence[TechniqueSpec]) -> WorkloadSpec:
    """The workload with the sizes that techniques give it. Raises what `compose_techniques` does."""
    for technique in compose_techniques(specs):
        workload = technique.resize_workload(workload)
    return workload
