"""The rule about what a loop's thread does besides training, from its sampled stacks."""

from collections.abc import Iterator
from math import sqrt

from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.stacks import LoopActivity
from perfkit.analysis.stacks.activities import PYTHON
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.core.units import format_percent
from perfkit.devices.accelerator import is_cpu

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


# What a fix takes out of the step, and puts nothing in its place.
_REMOVABLE = ("loop.checkpoints", "loop.worker_starts", "loop.file_reads", "loop.printing")
# A new worker's first batches are awaited, too.
_AWAITED = "loop.worker_starts"


def find_loop_activities(suite: SuiteView) -> Iterator[Finding]:
    """What takes at least 5 % of the samples of a loop's thread and does not train."""
    for variant in suite.looked_into:
        stacks = None if variant.loop is None else variant.loop.stacks
        step_s = get_step_s(variant)
        if (
            variant.loop is None
            or stacks is None
            or stacks.loop is None
            or step_s is None
            or stacks.loop.samples < LEAST_SAMPLES
        ):
            continue
        on_cpu = suite.environment is not None and is_cpu(suite.environment.device)
        # Python holds the GIL while it collects garbage, which has a finding of its own.
        collection_s = variant.loop.collection_mean_s or 0.0
        for activity in stacks.activities:
            of_others = collection_s / step_s if activity.name == PYTHON else 0.0
            if activity.share - of_others >= COMMON:
                own = replace(activity, share=activity.share - of_others)
                yield _report_activity(own, variant.name, stacks.loop.samples, variant.loop, step_s, on_cpu=on_cpu)


def _report_activity(
    activity: LoopActivity, owner: str, samples: int, loop: LoopAnalysis, step_s: float, *, on_cpu: bool
) -> Finding:
    finding_id = f"loop.{activity.name}"
    title, action = TEXTS[finding_id]
    where = f", most in {activity.place}" if activity.place else ""
    low, high = _bound_share(activity.share, samples, loop.stacks.failed_share if loop.stacks is not None else 0.0)
    awaited_s = loop.data_wait_mean_s or 0.0 if finding_id == _AWAITED else 0.0
    gain = GainRange(
        unit="s",
        low=low * step_s if on_cpu and finding_id in _REMOVABLE else 0.0,
        high=min(high * step_s + awaited_s, step_s),
        basis="bound",
    )
    details = ("share of samples, with its 95 % interval; failed samples may have been of it",)
    return Finding(
        id=finding_id,
        severity="gain",
        title=f"{title}: {format_percent(activity.share, 0)} of the time",
        variant=owner,
        evidence=f"{activity.samples:,} of {samples:,} samples{where}",
        action=action,
        gain_s=activity.share * step_s,
        gains=(gain,),
        details=(*details, "at most with all waits for batches") if awaited_s else details,
        figures={"share": activity.share, "samples": samples},
    )


def _bound_share(share: float, samples: int, failed_share: float) -> tuple[float, float]:
    """Wilson's score interval (JASA 22, 1927) of a share of samples; at most all failed samples belong to it."""
    most = min(1.0, share * (1 - failed_share) + failed_share)
    return _find_wilson_end(share, samples, -1), min(1.0, _find_wilson_end(most, samples, 1))


def _find_wilson_end(share: float, samples: int, side: int) -> float:
    spread = _NORMAL**2 / samples
    half = _NORMAL * sqrt(share * (1 - share) / samples + spread / (4 * samples))
    return (share + spread / 2 + side * half) / (1 + spread)
