"""The rule about several devices of one process."""

from perfkit.analysis.findings.rule import GAIN, About, FindingKind, Rule
from perfkit.analysis.trace.findings import devices
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent

TURNS = FindingKind(
    "devices.in_turn",
    GAIN,
    f"With its work spread over all devices of its process, the trace would be shorter by at least "
    f"{format_percent(COMMON, 0)} of the step.",
    "Split the batch into microbatches, so that devices work at once, or use DistributedDataParallel.",
    "The time with some device working, less the mean busy time of the devices.",
)

RULES = (Rule(devices.find_turns, TraceView, About.STEP, (TURNS,)),)
