"""Checks which techniques can be combined, by what each declares of others, before anything runs."""

from collections.abc import Iterable, Sequence

from perfkit.core.errors import UsageError
from perfkit.techniques.base.technique import Technique, format_technique


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
