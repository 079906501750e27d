"""A check as annotations of a GitHub workflow: commands that a step prints.

The escaping is that of actions/toolkit (packages/core/src/command.ts), which the runner undoes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.check.result import Check, CheckedVariant, Verdict
from perfkit_reports.cells import plural
from perfkit_reports.names import middle
from perfkit_reports.subjects.check import quantities as cells
from perfkit_reports.subjects.check import story

# "GitHub Actions are limited to 10 warning annotations and 10 error annotations per step" (REST API, check runs);
# the same is kept to for notices.
SHOWN = 10
_TITLE, _LINE = 200, 600

_LEVELS = (
    ("error", (Verdict.FAIL,)),
    ("warning", (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARED)),
    ("notice", (Verdict.IMPROVED,)),
)


@dataclass(frozen=True)
class Annotation:
    """`level` is `error`, `warning` or `notice`."""

    level: str
    title: str
    message: str

    @property
    def command(self) -> str:
        """The line that makes the runner show it."""
        return f"::{self.level} title={_of_property(self.title)}::{_of_message(self.message)}"


def render(check: Check) -> str:
    """A command a line, nothing where all passes: an error for each variant that got worse, a warning for each of
    which something is not known, a notice for each that got better. Where there are more than GitHub shows, the last
    says how many more.
    """
    lines = []
    for level, verdicts in _LEVELS:
        found = [one for variant in check.variants if (one := _of_variant(level, verdicts, variant))]
        lines += [each.command for each in _shown(level, found)]
    return "".join(f"{line}\n" for line in lines)


def _of_variant(level: str, verdicts: Sequence[Verdict], variant: CheckedVariant) -> Annotation | None:
    judged = [each for each in story.gated(variant) if each.verdict in verdicts]
    if not judged:
        return None
    lines = [
        f"{each.verdict.value}: {cells.brief(each)}"
        for each in judged
        if cells.has_change(each)  # else its reason says it all
    ]
    lines += [story.line(reason) for reason in story.reasons(variant) if reason.verdict in verdicts]
    if Verdict.FAIL in verdicts:
        lines += [f"suspect: {suspect}" for suspect in story.suspects(variant)]
    title = f"perfkit check: {middle(story.name(variant), _TITLE)}"
    return Annotation(level, title, "\n".join(middle(line, _LINE) for line in lines))


def _shown(level: str, found: Sequence[Annotation]) -> list[Annotation]:
    if len(found) <= SHOWN:
        return list(found)
    rest = len(found) - SHOWN + 1
    message = f"{plural(rest, 'more variant')} with an annotation of this kind: see the report"
    return [*found[: SHOWN - 1], Annotation(level, "perfkit check", message)]


def _of_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _of_property(text: str) -> str:
    return _of_message(text).replace(":", "%3A").replace(",", "%2C")
