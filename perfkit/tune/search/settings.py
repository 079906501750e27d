"""Other settings of accepted techniques: values of their parameters to try, one at a time."""

from collections.abc import Iterator, Sequence

import torch
from msgspec.structs import replace

from perfkit.core.spec import TechniqueSpec
from perfkit.techniques.compose import are_compatible, compose_techniques
from perfkit.tune.model.tune_request import Techniques


def list_settings(accepted: Techniques, chosen: Sequence[Techniques], device: torch.device) -> Iterator[Techniques]:
    """The accepted techniques with one parameter of one of them changed to a value that the technique proposes.

    A parameter to which every one of the user's `chosen` variants of its technique gives a value stays.
    """
    techniques = {technique.name: technique for technique in compose_techniques(accepted)}
    for place, spec in enumerate(accepted):
        for parameter, values in techniques[spec.name].propose_settings(device).items():
            if _is_chosen(spec.name, parameter, chosen):
                continue
            for value in values:
                changed = replace(spec, params={**spec.params, parameter: value})
                variant = (*accepted[:place], changed, *accepted[place + 1 :])
                if are_compatible(variant):
                    yield variant


def _is_chosen(name: str, parameter: str, chosen: Sequence[Techniques]) -> bool:
    given: list[TechniqueSpec] = [spec for specs in chosen for spec in specs if spec.name == name]
    return bool(given) and all(parameter in spec.params for spec in given)
