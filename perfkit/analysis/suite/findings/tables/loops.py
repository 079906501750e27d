"""Rules about attached loops."""

from perfkit.analysis.findings.rule import GAIN, NOTE, WARNING, About, FindingKind, Rule
from perfkit.analysis.suite.findings import loops
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.analysis.trace.findings.tables.host import STARVED
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.core.units import format_percent

OUTLIERS = FindingKind(
    "steps.outliers",
    GAIN,
    f"Steps longer than twice the median cost at least {format_percent(NOTABLE, 0)} of all step time.",
    "Look at what the loop does in these steps: logging, checkpoints, garbage collection, new shapes; load data faster "
    "if most of the excess is waiting for data.",
    "The time beyond the median, averaged over all timed steps.",
)
EVALUATION = FindingKind(
    "steps.evaluation",
    NOTE,
    "An evaluation ran in timed steps, which are excluded from the step time.",
    "Evaluate less often or on fewer batches if it takes much of the run.",
)
PADDING = FindingKind(
    "data.padding",
    GAIN,
    "At least a fifth of the positions is padding: the attention mask excludes them, they lie behind the last packed "
    "sequence, or they have the padding index of the model's embeddings.",
    "Pack sequences into rows, or bucket them by length.",
    "The share of padding in the step without its wait for data and, where traced, its update; at most by the square "
    "of the length.",
)
DRIFT = FindingKind(
    "steps.drift",
    WARNING,
    "In a continuously watched loop, the last tenth of the steps takes 5 % longer than the first.",
    "Trace the slowdown with `--trace-on regression`.",
)
SLOWER_CAPTURE = FindingKind(
    "steps.slower_capture",
    WARNING,
    "The steps of a triggered capture take 5 % longer than those of the first.",
    "Compare data waits, ops, memory and clocks of both captures.",
)
COLLECTION = FindingKind(
    "loop.garbage_collection",
    GAIN,
    f"Python collects garbage in {format_percent(COMMON, 0)} or more of the timed steps' time.",
    "Remove `gc.collect()` from the step, call `gc.freeze()` before the loop, and create fewer objects in it.",
    "The mean time of the collections in a timed step.",
)
DATA_WAIT_RULES = (Rule(loops.find_untraced_data_wait, SuiteView, About.STEP, (STARVED,)),)
RULES = (
    Rule(loops.find_drift, SuiteView, About.STEP, (DRIFT,)),
    Rule(loops.find_slower_capture, SuiteView, About.STEP, (SLOWER_CAPTURE,)),
    Rule(loops.find_garbage_collection, SuiteView, About.STEP, (COLLECTION,)),
    Rule(loops.find_outlier_steps, SuiteView, About.STEP, (OUTLIERS,)),
    Rule(loops.find_padding, SuiteView, About.STEP, (PADDING,)),
    Rule(loops.find_excluded_steps, SuiteView, About.STEP, (EVALUATION,)),
)
