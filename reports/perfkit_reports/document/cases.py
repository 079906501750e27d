"""Verdicts for test reports and pull requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "better", "worse", "fail", "unsure", "skipped"]


@dataclass(frozen=True, kw_only=True)
class VerdictCase:
    """The verdict on one figure: its `word` (`inconclusive`), its `reason`, and what is missing `to_decide`.

    The outcome `worse` is no failure but is reported. `figures` are the change and the threshold (`+1.0 % (-4.9 to
    +7.2 %), allowed 3%`), `sides` the compared figures (`13.3 ms → 13.5 ms`); both are empty without a comparison.
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
    """The uniquely named cases of one checked variant.

    `remark` applies to all cases, `suspects` are likely causes of failed and worse cases, `reason` explains missing
    cases. `properties` are figures with all digits, `host` and `seconds` the place and duration of the run.
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
    """Reasons and what would decide: `CPU time, step time: the interval contains 0`.

    Equal reasons share a line with all their names.
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        word = "" if case.figures else f"{case.word}: "  # the others' figures show the outcome
        alike.setdefault((word, case.reason or "no reason was recorded", case.to_decide), []).append(case.name)
    lines = []
    for (word, reason, to_decide), names in alike.items():
        titles = ", ".join(names)
        line = f"{word}{reason if reason.startswith(f'{titles} ') else f'{titles}: {reason}'}"
        lines.append(f"{line}; to decide: {to_decide}" if to_decide else line)
    return lines
