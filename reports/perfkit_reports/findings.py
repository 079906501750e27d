"""A finding as text: its icon, its severity in words, and the gain it could bring."""

from perfkit import units
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_MOST
from perfkit_reports.wording import sentence

ICONS = {"gain": "▲", "warning": "!", "note": "i"}
WORDS = {"gain": "Gain", "warning": "Warning", "note": "Note"}


def icon(finding: Finding) -> str:
    return ICONS.get(finding.severity, "i")


def word(finding: Finding) -> str:
    return WORDS.get(finding.severity, finding.severity.capitalize())


def gain(finding: Finding) -> str:
    """`76.6 ms a step and 107 MiB`; empty where neither is known."""
    parts = []
    if finding.gain_s is not None:
        parts.append(f"{units.seconds(finding.gain_s)} {'a step' if finding.per_step else 'total'}")
    if finding.gain_bytes is not None:
        parts.append(units.nbytes(finding.gain_bytes))
    return " and ".join(parts)


def worth(finding: Finding) -> str:
    """The gain with the bound that it is: `up to 76.6 ms a step`."""
    won = gain(finding)
    return f"{'up to' if finding.gain_bound == AT_MOST else finding.gain_bound} {won}" if won else ""


def evidence(finding: Finding) -> str:
    return sentence(finding.evidence)


def action(finding: Finding) -> str:
    return sentence(finding.action)


def details(finding: Finding) -> list[str]:
    """What the gain assumes, and where else the same was found."""
    return [sentence(detail) for detail in finding.details]
