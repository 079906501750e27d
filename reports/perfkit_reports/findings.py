"""A finding as text: its icon, its severity in words, and the gain it could bring."""

from perfkit import units
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_MOST
from perfkit_reports.names import shorten_kernel
from perfkit_reports.selection import make_idle_key, make_key
from perfkit_reports.wording import format_sentence

ICONS = {"gain": "▲", "warning": "!", "note": "i"}
_NOTHING = 1e-3  # of the sum: a gain below this is none
_BOUNDS = {AT_MOST: "up to"}
WORDS = {"gain": "Gain", "warning": "Warning", "note": "Note"}


def get_icon(finding: Finding) -> str:
    return ICONS.get(finding.severity, "i")


def get_severity_word(finding: Finding) -> str:
    return WORDS.get(finding.severity, finding.severity.capitalize())


def format_gain(finding: Finding) -> str:
    """`76.6 ms a step and 107 MiB`; empty where neither is known."""
    parts = []
    if finding.expected_s is not None:
        parts.append(_format_time(finding, finding.expected_s))
    if finding.gain_bytes is not None:
        parts.append(units.format_bytes(finding.gain_bytes))
    return " and ".join(parts)


def format_gain_with_sum(finding: Finding) -> str:
    """What a replay says it saves, the sum second: `7.91 ms a step, simulated (summed 14.7 ms at most)`.

    Without a replay the sum with the bound that it is: `up to 14.7 ms a step`.
    """
    summed = format_summed_gain(finding)
    return f"{format_expected_gain(finding)} ({summed})" if summed else format_expected_gain(finding)


def format_expected_gain(finding: Finding) -> str:
    """`7.91 ms a step, simulated`; without a replay `up to 14.7 ms a step`."""
    won = format_gain(finding)
    if finding.simulated_s is None or finding.gain_s is None:
        return f"{_BOUNDS.get(finding.gain_bound, finding.gain_bound)} {won}" if won else ""
    return f"{won if has_own_gain(finding) else 'nothing by itself'}, simulated"


def format_summed_gain(finding: Finding) -> str:
    """`summed 14.7 ms at most` beside what is simulated."""
    if finding.simulated_s is None or finding.gain_s is None:
        return ""
    # What goes beside the work itself (launches, waits) may save more than its sum.
    most = " at most" if finding.gain_bound == AT_MOST and finding.gain_s >= finding.simulated_s else ""
    per = "" if has_own_gain(finding) or not finding.per_step else " a step"
    return f"summed {units.format_seconds(finding.gain_s)}{per}{most}"


def has_own_gain(finding: Finding) -> bool:
    """Whether it is not simulated to save nothing."""
    if finding.simulated_s is None or finding.gain_s is None:
        return True
    return finding.simulated_s >= _NOTHING * finding.gain_s


def _format_time(finding: Finding, time_s: float) -> str:
    return f"{units.format_seconds(time_s)} {'a step' if finding.per_step else 'total'}"


def format_evidence(finding: Finding) -> str:
    return format_sentence(finding.evidence)


def format_action(finding: Finding) -> str:
    return format_sentence(finding.action)


def list_details(finding: Finding) -> list[str]:
    """What the gain assumes, why it is not simulated, and where else the same was found."""
    why_not = (f"not simulated, so that the gain is the sum: {finding.not_simulated}",) if finding.not_simulated else ()
    return [format_sentence(detail) for detail in (*finding.details, *why_not)]


def list_subjects(finding: Finding) -> list[tuple[str, str]]:
    """(name, key) of the causes of idle time and of the ops that it is about."""
    idle = [(cause, make_idle_key(cause)) for cause in finding.idle]
    return idle + [(shorten_kernel(name, 48), make_key("op", name)) for name in finding.ops]


def list_subject_keys(finding: Finding) -> list[str]:
    return [key for _, key in list_subjects(finding)]


def make_finding_key(finding: Finding) -> str:
    """The key of all that it is about."""
    return make_key("finding", f"{finding.variant}: {finding.title}" if finding.variant else finding.title)
