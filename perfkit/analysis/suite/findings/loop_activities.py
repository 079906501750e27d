"""The rule about what a loop's thread does besides training, from its sampled stacks."""

from collections.abc import Iterator
from math import sqrt

from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.stacks import LoopActivity
from perfkit.analysis.stacks.activities import PYTHON
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.core.units import format_percent

_NORMAL = 1.96  # of a 95 % interval

# Title and advice by the id of the finding: `loop.` and the activity.
TEXTS = {
    "loop.deep_copies": (
        "Step deep-copies Python objects or modules",
        "Copy once before the loop, and update the copy in place: torch._foreach_lerp_ or AveragedModel for averages.",
    ),
    "loop.checkpoints": (
        "Step saves a checkpoint",
        "Save every N steps, or in the background with torch.distributed.checkpoint.async_save.",
    ),
    "loop.worker_starts": (
        "DataLoader starts its workers again",
        "Keep the loader's workers with persistent_workers=True, and build the loader once.",
    ),
    "loop.file_reads": (
        "Step reads files",
        "Read the file once before the loop, or in a DataLoader with workers.",
    ),
    "loop.printing": (
        "Step prints or logs",
        "Log every N steps, and values only: formatting a tensor takes many ops.",
    ),
    "loop.tensor_reads": (
        "Step reads tensor values",
        "Compute with tensors, and read results every N steps.",
    ),
    "loop.python": (
        "Step runs Python outside of torch",
        "Move this code before the loop or into DataLoader workers, or compute it with tensors.",
    ),
}


def find_loop_activities(suite: SuiteView) -> Iterator[Finding]:
    """What takes at least 5 % of the samples of a loop's thread and does not train."""
    for variant in suite.looked_into:
        stacks = None if variant.loop is None else variant.loop.stacks
        step_s = get_step_s(variant)
        if stacks is None or stacks.loop is None or step_s is None or stacks.loop.samples < LEAST_SAMPLES:
            continue
        # Python holds the GIL while it collects garbage, which has a finding of its own.
        collection_s = 0.0 if variant.loop is None else variant.loop.collection_mean_s or 0.0
        for activity in stacks.activities:
            of_others = collection_s / step_s if activity.name == PYTHON else 0.0
            if activity.share - of_others >= COMMON:
                own = replace(activity, share=activity.share - of_others)
                yield _report_activity(own, variant.name, stacks.loop.samples, step_s)


def _report_activity(activity: LoopActivity, owner: str, samples: int, step_s: float) -> Finding:
    finding_id = f"loop.{activity.name}"
    title, action = TEXTS[finding_id]
    where = f", most in {activity.place}" if activity.place else ""
    return Finding(
        id=finding_id,
        severity="gain",
        title=f"{title}: {format_percent(activity.share, 0)} of the time",
        variant=owner,
        evidence=f"{activity.samples:,} of {samples:,} samples{where}",
        action=action,
        gain_s=activity.share * step_s,
        gains=(GainRange(unit="s", low=0.0, high=_bound_share(activity.share, samples) * step_s, basis="bound"),),
        details=("the share of samples, up to the end of its 95 % interval",),
        figures={"share": activity.share, "samples": samples},
    )


def _bound_share(share: float, samples: int) -> float:
    """The upper end of Wilson's score interval (JASA 22, 1927) of a share of samples."""
    spread = _NORMAL**2 / samples
    half = _NORMAL * sqrt(share * (1 - share) / samples + spread / (4 * samples))
    return min(1.0, (share + spread / 2 + half) / (1 + spread))
