"""A finding as text: its icon, its severity and its gain."""

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_MOST
from perfkit.core import units
from perfkit_reports.names import shorten_kernel
from perfkit_reports.selection import make_idle_key, make_key
from perfkit_reports.wording import format_sentence

ICONS = {"gain": "▲", "warning": "!", "note": "i"}
_NOTHING = 1e-3  # share of the sum below which a gain counts as none
_MORE = 1.005  # times the sum: above it a simulated gain needs a second cause
_BOUNDS = {AT_MOST: "up to"}
WORDS = {"gain": "Gain", "warning": "Warning", "note": "Note"}


def get_icon(finding: Finding) -> str:
    return ICONS.get(finding.severity, "i")


def get_severity_word(finding: Finding) -> str:
    return WORDS.get(finding.severity, finding.severity.capitalize())


def format_gain(finding: Finding) -> str:
    """`76.6 ms per step and 107 MiB`; empty if neither is known."""
    parts = []
    if finding.expected_s is not None:
        parts.append(_format_time(finding, finding.expected_s))
    if finding.gain_bytes is not None:
        parts.append(units.format_bytes(finding.gain_bytes))
    return " and ".join(parts)


def format_expected_gain(finding: Finding) -> str:
    """`7.91 ms per step (simulated)`; without a simulation `up to 14.7 ms per step`.

    A gain above its sum says what the change removes in addition, or how much of it is elsewhere.
    """
    gain = format_brief_gain(finding)
    if finding.simulated_s is None or finding.gain_s is None:
        return gain
    return f"{gain.removesuffix(')')}{_format_second_cause(finding)})"


def format_brief_gain(finding: Finding) -> str:
    """`7.91 ms per step (simulated)`, without what else a change removes."""
    gain = format_gain(finding)
    if finding.simulated_s is None or finding.gain_s is None:
        return f"{_BOUNDS.get(finding.gain_bound, finding.gain_bound)} {gain}" if gain else ""
    return f"{gain if has_own_gain(finding) else 'no gain alone'} (simulated)"


def _format_second_cause(finding: Finding) -> str:
    simulated_s, summed_s, touched = finding.simulated_s, finding.gain_s, finding.touched
    if touched is None or simulated_s is None or summed_s is None or simulated_s <= _MORE * summed_s:
        return ""
    if touched.kernels_s == 0:  # what it removes is its own subject
        return f"; {units.format_seconds(simulated_s - summed_s)} of it elsewhere in the step"
    parts = {"gaps": touched.gaps_s, "CPU time": touched.cpu_s, "waits": touched.waits_s}
    removed = [f"{units.format_seconds(seconds)} of {what}" for what, seconds in parts.items() if seconds > 0]
    return f"; also removes {', '.join(removed)}" if removed else ""


def format_summed_gain(finding: Finding) -> str:
    """`upper bound 14.7 ms per step`: the basis beside a simulated gain, empty without one."""
    if finding.simulated_s is None or finding.gain_s is None:
        return ""
    # Removed launches and waits may save more than the sum of the work itself.
    bounded = finding.gain_bound == AT_MOST and finding.gain_s >= finding.simulated_s
    return f"{'upper bound' if bounded else 'sum over kernels'} {_format_time(finding, finding.gain_s)}"


def has_own_gain(finding: Finding) -> bool:
    """True unless the simulation shows no gain from this fix alone."""
    if finding.simulated_s is None or finding.gain_s is None:
        return True
    return finding.simulated_s >= _NOTHING * finding.gain_s


def _format_time(finding: Finding, time_s: float) -> str:
    return f"{units.format_seconds(time_s)} {'per step' if finding.per_step else 'total'}"


def format_evidence(finding: Finding) -> str:
    return format_sentence(finding.evidence)


def format_action(finding: Finding) -> str:
    return format_sentence(finding.action)


def list_details(finding: Finding) -> list[str]:
    """Basis of the gain and its sum, reason for no simulation, other traces with the same finding."""
    why_not = f"gain summed, not simulated: {finding.not_simulated_reason}" if finding.not_simulated_reason else ""
    return [format_sentence(detail) for detail in (*finding.details, format_summed_gain(finding), why_not) if detail]


def list_subjects(finding: Finding) -> list[tuple[str, str]]:
    """(name, key) of the finding's idle causes and ops."""
    idle = [(cause, make_idle_key(cause)) for cause in finding.idle_causes]
    return idle + [(shorten_kernel(name, 48), make_key("op", name)) for name in finding.ops]


def list_subject_keys(finding: Finding) -> list[str]:
    return [key for _, key in list_subjects(finding)]


def make_finding_key(finding: Finding) -> str:
    """Key that selects the finding's subjects."""
    return make_key("finding", f"{finding.variant}: {finding.title}" if finding.variant else finding.title)
