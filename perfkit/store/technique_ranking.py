"""The ranking of techniques that were not measured: `<suite>/ranking.json`, written after a bench."""

from perfkit.core.spec import Struct

RANKING_FILE = "ranking.json"


class RankedTechnique(Struct):
    """A technique by its simulated saving in a recorded step.

    `technique` is what is new, as on the command line; `variant` also has the techniques of the recorded step.
    `names` are those of the new techniques without parameters. `saving_s` is between `low_s` and `high_s`, in seconds
    per step.
    """

    technique: str
    variant: str
    names: tuple[str, ...]
    saving_s: float
    low_s: float
    high_s: float


class TechniqueRanking(Struct):
    """Techniques by what each saves in the step of the variant `of`, the most first; `step_s` is its timed step."""

    schema_version: int = 1
    of: str
    step_s: float
    techniques: tuple[RankedTechnique, ...]
