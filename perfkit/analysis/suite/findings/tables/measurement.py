"""Rules about limits of the figures of suites."""

from perfkit.analysis.compare.device_clocks import ALIKE
from perfkit.analysis.findings.rule import NOTE, WARNING, About, FindingKind, Rule
from perfkit.analysis.suite.findings import allocator, clocks, measurement
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.analysis.trace.findings.tables.limits import EXCEEDED_CEILINGS
from perfkit.analysis.trace.findings.tables.multi_trace import RANK_DIFFERENCES
from perfkit.core.units import format_percent

INCONCLUSIVE = FindingKind(
    "comparison.inconclusive",
    NOTE,
    "The interval of a speed-up includes both no change and a relevant change.",
    "Run more rounds, or use a quieter machine.",
)
SHORT_COMPARISON = FindingKind(
    "loss.short_comparison",
    NOTE,
    "One rounding changes the baseline's losses by more than 1e-6 before half of the steps to be compared.",
    "Use deterministic algorithms, a larger batch or a lower learning rate to compare more steps.",
)
SESSION_SHIFT = FindingKind(
    "comparison.session_shift",
    NOTE,
    "The 95 % intervals of a baseline's step time do not overlap between two sessions.",
    "Compare speed-ups, not absolute times.",
)
RETRIES = FindingKind(
    "memory.allocation_retries",
    WARNING,
    "In timed steps the caching allocator found no memory left: it emptied its cache and tried again, or failed.",
    "Leave memory free: a smaller batch, checkpointing, or expandable segments.",
)
DEVICE_ALLOCATIONS = FindingKind(
    "memory.device_allocations",
    NOTE,
    f"At least {allocator.MANY} allocations of the driver (`cudaMalloc`) in timed steps, without memory running out.",
    "Keep shapes constant from step to step, and warm up longer.",
)
LOW_CLOCK = FindingKind(
    "clock.limited",
    NOTE,
    f"During the timed steps a GPU's median clock was below {format_percent(clocks.LOW, 0)} of its highest, and its "
    "driver gave a reason other than idling.",
    "Remove the limit if the hardware allows it; compare runs at equal clocks.",
)
OTHER_CLOCK = FindingKind(
    "comparison.clocks",
    NOTE,
    f"The GPU's median clock differs from the baseline's by more than {format_percent(ALIKE, 0)}.",
    "Lock the clocks with `nvidia-smi -lgc` to compare the work alone.",
)
UNCERTAIN_CEILINGS = FindingKind(
    "limit.uncertain_ceilings",
    NOTE,
    "Measured ceilings have low confidence or were disturbed.",
    "Calibrate again on an idle machine with `perfkit calibrate --force`.",
)
UNMODELED_OPS = FindingKind(
    "limit.unmodeled_ops",
    NOTE,
    "More than 10 % of the baseline's step is in ops without an estimate or a ceiling.",
    "Calibrate for this number of threads.",
)

RULES = (
    Rule(measurement.find_inconclusive_comparison, SuiteView, About.LIMIT, (INCONCLUSIVE,)),
    Rule(measurement.find_short_comparison, SuiteView, About.LIMIT, (SHORT_COMPARISON,)),
    Rule(measurement.find_session_shift, SuiteView, About.LIMIT, (SESSION_SHIFT,)),
    Rule(allocator.find_retries, SuiteView, About.MEMORY, (RETRIES,)),
    Rule(allocator.find_device_allocations, SuiteView, About.MEMORY, (DEVICE_ALLOCATIONS,)),
    Rule(clocks.find_low_clock, SuiteView, About.LIMIT, (LOW_CLOCK,)),
    Rule(clocks.find_other_clocks, SuiteView, About.LIMIT, (OTHER_CLOCK,)),
    Rule(measurement.find_rank_differences, SuiteView, About.LIMIT, (RANK_DIFFERENCES,)),
    Rule(measurement.find_exceeded_ceilings, SuiteView, About.LIMIT, (EXCEEDED_CEILINGS,)),
    Rule(measurement.find_uncertain_ceilings, SuiteView, About.LIMIT, (UNCERTAIN_CEILINGS,)),
    Rule(measurement.find_unmodeled_ops, SuiteView, About.LIMIT, (UNMODELED_OPS,)),
)
