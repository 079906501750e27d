"""The rule about what a loop's thread does besides training."""

from perfkit.analysis.findings.rule import GAIN, About, FindingKind, Rule
from perfkit.analysis.suite.findings import loop_activities
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.core.units import format_percent

_SAMPLES = f"in at least {format_percent(COMMON, 0)} of the training thread's samples"
_GAIN = "The share of these samples of a step, with its 95 % interval. Failed samples may belong to it."

ACTIVITIES = tuple(
    FindingKind(finding_id, GAIN, f"{trigger} {_SAMPLES}.", loop_activities.TEXTS[finding_id][1], _GAIN)
    for finding_id, trigger in (
        ("loop.deep_copies", "`copy.deepcopy` runs"),
        ("loop.checkpoints", "A checkpoint is saved"),
        ("loop.worker_starts", "A DataLoader starts or stops its workers"),
        ("loop.file_reads", "The program reads a file outside of a DataLoader"),
        ("loop.printing", "The program prints, logs or formats tensors"),
        ("loop.tensor_reads", "The program reads values of tensors (`.item()`, `.tolist()`, `.cpu()`, `.numpy()`)"),
        ("loop.python", "Python code outside of torch and of data loading holds the GIL"),
    )
)

RULES = (Rule(loop_activities.find_loop_activities, SuiteView, About.STEP, ACTIVITIES),)
