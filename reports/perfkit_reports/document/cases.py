"""Verdicts, as test reports and pull requests have them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "better", "worse", "fail", "unsure", "skipped"]


@dataclass(frozen=True, kw_only=True)
class VerdictCase:
    """The verdict on one figure: `word` names it (`inconclusive`), `reason` says what it rests on, `to_decide` what
    would settle it. The outcome `worse` is no failure, but has to be said. `figures` are the change and what is allowed
    (`+1.0 % (-4.9 to +7.2 %), allowed 3%`), `sides` what was compared (`13.3 ms → 13.5 ms`); both are empty where
    nothing could be.
    """

    name: str
    outcome: Outcome
    word: str
    figures: str = ""
    sides: str = ""
    reason: str = ""
    to_decide: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class VerdictSuite:
    """The cases of one thing that is checked, each under a name of its own.

    `remark` is what to know before any of them, `suspects` may be behind those that fail or are worse, `reason` says
    why there are no cases. `properties` are figures to the last digit, `host` is where it ran and `seconds` for how
    long.
    """

    name: str
    cases: tuple[VerdictCase, ...]
    remark: str = ""
    suspects: tuple[str, ...] = ()
    reason: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    host: str = ""
    seconds: float = 0.0


def list_reasons(cases: Sequence[VerdictCase]) -> list[str]:
    """Why they have their outcomes and what would decide: `CPU time, step time: the interval contains 0`. Equal words
    stand once, with the names of all that have them.
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        word = "" if case.figures else f"{case.word}: "  # figures tell the others' outcome
        alike.setdefault((word, case.reason or "no reason was recorded", case.to_decide), []).append(case.name)
    lines = []
    for (word, reason, to_decide), names in alike.items():
        titles = ", ".join(names)
        line = f"{word}{reason if reason.startswith(f'{titles} ') else f'{titles}: {reason}'}"
        lines.append(f"{line}; to decide: {to_decide}" if to_decide else line)
    return lines
