"""Verdicts, as test reports and pull requests have them."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "better", "fail", "unsure", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The verdict on one figure: `word` names it (`inconclusive`), `figures` say what it was taken from, if anything
    (`+1.0 % (-4.9 to +7.2 %), allowed 3%`), `reason` what it rests on and `lines` what else there is to say.
    """

    name: str
    outcome: Outcome
    word: str
    figures: str = ""
    reason: str = ""
    lines: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The cases of one thing that is checked, each under a name of its own.

    `suspects` may be behind those that fail, `reason` says why there are no cases. `properties` are figures to the last
    digit, `host` is where it ran and `seconds` for how long.
    """

    name: str
    cases: tuple[Case, ...]
    suspects: tuple[str, ...] = ()
    reason: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    host: str = ""
    seconds: float = 0.0
