"""Rules about communication and copies."""

from perfkit.analysis.findings.rule import GAIN, WARNING, About, FindingKind, Rule
from perfkit.analysis.trace.findings import sharding, transfer
from perfkit.analysis.trace.findings.trace_thresholds import (
    BUS_SHARE,
    COMMON,
    LARGE_MESSAGE_BYTES,
    LATE_BUCKETS,
    NOTABLE,
    SMALL_MESSAGE_BYTES,
    WHOLE_GATHER,
)
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent

_LEAST = f"at least {format_percent(NOTABLE, 0)}"

EXPOSED = FindingKind(
    "comm.exposed",
    GAIN,
    f"Communication that no compute overlaps takes {_LEAST} of the step.",
    "Overlap it with `bucket_cap_mb` and `gradient_as_bucket_view` of DDP, prefetching of FSDP or `async_op=True`, or "
    "reduce gradients once for several microbatches.",
    "The exposed time, without what is known to be waiting for other ranks.",
    techniques=("ddp", "accum"),
)
BUBBLE = FindingKind(
    "comm.bubble",
    GAIN,
    f"Messages of pipeline stages wait for another stage for {_LEAST} of the step.",
    "Use more microbatches, a schedule with less bubble, and stages of equal time.",
    "The exposed time beyond the shortest of equal messages.",
    techniques=("pp:schedule=interleaved", "pp:schedule=zb"),
)
WAITING = FindingKind(
    "comm.waiting",
    GAIN,
    f"Collectives of a single trace wait for other ranks for {_LEAST} of the step.",
    "Analyze the traces of all ranks together: they show which rank is late.",
    "The exposed time beyond the shortest of equal calls.",
)
SLOW_LINK = FindingKind(
    "comm.slow_link",
    GAIN,
    f"Messages of {LARGE_MESSAGE_BYTES >> 20} MiB or more reach less than {format_percent(BUS_SHARE, 0)} of the "
    "bandwidth measured between as many ranks, else of the link's; from the last arrival, else in the shortest call.",
    "Check the path with nccl-tests and `NCCL_DEBUG=INFO`; on CPUs, leave cores to the backend's threads.",
    "The exposed time beyond the transfer time at link bandwidth.",
)
SMALL_MESSAGES = FindingKind(
    "comm.small_messages",
    GAIN,
    f"Collectives of less than {SMALL_MESSAGE_BYTES >> 20} MiB, called twice or more, are exposed for {_LEAST} of the "
    "step. Sends, receives and barriers do not count.",
    "Combine them: larger buckets, or one `all_reduce` of stacked tensors.",
    "Their exposed transfers, without waiting.",
    techniques=("ddp",),
)
ACCUMULATION = FindingKind(
    "comm.accumulation",
    GAIN,
    f"DDP or FSDP reduces gradients in several backward passes of an optimizer step, exposed for {_LEAST} of the step.",
    "Reduce them in the last microbatch alone: `no_sync()` around forward and backward (DDP), "
    "`set_requires_gradient_sync(False)` (FSDP2).",
    "The exposed transfers of all reductions but one.",
)
BUCKETS_AT_END = FindingKind(
    "comm.late_buckets",
    GAIN,
    f"DDP reduces two buckets or more, the first after {format_percent(LATE_BUCKETS, 0)} of the time until the last, "
    f"exposed for {_LEAST} of the step.",
    "Register modules in the order of use, or let DDP rebuild its buckets: `static_graph=True`, or no "
    "`find_unused_parameters=True`.",
    "The exposed transfers of all buckets but the last.",
    techniques=("ddp:static_graph=true",),
)
ROOT_ONLY = FindingKind(
    "shard.whole_gather",
    WARNING,
    f"One all-gather of FSDP2 has at least {format_percent(WHOLE_GATHER, 0)} of all parameters.",
    "Call `fully_shard()` on each block before the root.",
)
PAGEABLE = FindingKind(
    "copy.pageable",
    GAIN,
    f"Copies from or to pageable host memory are exposed for {_LEAST} of the step.",
    "Use `DataLoader(pin_memory=True)` and `.to(device, non_blocking=True)`.",
    "Their exposed time.",
    techniques=("data:pin=true:non_blocking=true",),
)
COPIES = FindingKind(
    "copy.exposed",
    GAIN,
    f"Copies between the device and pinned host memory are exposed for at least {format_percent(COMMON, 0)} of the "
    "step.",
    "Copy the next batch on its own stream during compute, and offload less.",
    "Their exposed time.",
)

RULES = (
    Rule(transfer.find_exposed_communication, TraceView, About.STEP, (EXPOSED,)),
    Rule(transfer.find_waiting, TraceView, About.STEP, (BUBBLE, WAITING)),
    Rule(transfer.find_slow_link, TraceView, About.STEP, (SLOW_LINK,)),
    Rule(transfer.find_small_messages, TraceView, About.STEP, (SMALL_MESSAGES,)),
    Rule(sharding.find_reductions_of_microbatches, TraceView, About.STEP, (ACCUMULATION,)),
    Rule(sharding.find_late_buckets, TraceView, About.STEP, (BUCKETS_AT_END,)),
    Rule(sharding.find_whole_gather, TraceView, About.STEP, (ROOT_ONLY,)),
    Rule(transfer.find_pageable_copies, TraceView, About.STEP, (PAGEABLE,)),
    Rule(transfer.find_exposed_copies, TraceView, About.STEP, (COPIES,)),
)
