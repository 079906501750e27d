"""The rule about what raised the peak memory of an attached loop."""

from perfkit.analysis.findings.rule import WARNING, About, FindingKind, Rule
from perfkit.analysis.suite.findings import loop_peaks
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.units import format_percent

_HIGHER = f"at least {format_percent(loop_peaks.LEAST_RATIO - 1, 0)} higher than before"

PEAKS = (
    FindingKind(
        "memory.evaluation_peak",
        WARNING,
        f"After a step with an evaluation the peak memory of an attached loop is {_HIGHER}.",
        "Evaluate with smaller batches, and keep metrics or CPU copies instead of logits.",
    ),
    FindingKind(
        "memory.longest_batch",
        WARNING,
        f"After a step whose input has a new shape the peak memory of an attached loop is {_HIGHER}.",
        "Limit the tokens of a batch: truncate, bucket by length, or pack.",
    ),
    FindingKind(
        "memory.growing_peak",
        WARNING,
        f"The peak memory of a loop rises in {loop_peaks.GROWING_READINGS} or more steps with one input shape.",
        "Look for tensors that outlive their step.",
    ),
    FindingKind(
        "memory.late_peak",
        WARNING,
        f"At the end of an attached loop the peak memory is {_HIGHER}, after steps that were not watched.",
        "Watch all steps with `--always-on`.",
    ),
)

RULES = (Rule(loop_peaks.find_loop_peaks, SuiteView, About.STEP, PEAKS),)
