"""The numbers of a finding's sentences are those of its figures."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.launches import Overlap
from perfkit.analysis.model.memory_model import MemoryAccount, MemoryGrowth, MemoryShare
from perfkit.analysis.model.time_split import PYTHON
from perfkit.analysis.model.trace import RankTrace, Recompute
from perfkit.analysis.pipeline.memory_findings import collect_memory_findings
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.core import units
from perfkit.core.allocations import FailedRequest
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import (
    attention,
    call,
    ceilings,
    collective,
    copy,
    coverage,
    device,
    gap,
    gemm,
    launches,
    queued,
    rank_trace,
    row,
    split,
)

MIB = 2**20
SCORES = "bf16[4,8,128,128]"


def optimizer(name: str, seconds: float) -> Any:
    return row(f"aten::_foreach_{name}_", seconds, calls=7.0, phase="optimizer", attainable_s=seconds / 3)


def pointwise(name: str, seconds: float) -> Any:
    return row(f"aten::{name}", seconds, calls=3.0, attainable_s=seconds, shapes="fp32[1024,1024]")


PRODUCT = row("aten::mm", 0.137, dtype="fp32", bound="compute", shapes="fp32[1024,512] fp32[512,2048]")
ODD = row("aten::mm", 0.173, dtype="bf16", attainable_s=0.01, shapes="bf16[1024,768] bf16[768,50257]")
EXPOSED = Overlap(communication_s=0.51, exposed_communication_s=0.123, copies_s=0.0, exposed_copies_s=0.0)
QUEUED = queued(launching_s=0.061, launching_gaps=41.0, between_s=0.043, between_gaps=23.0, long_s=0.31, long_gaps=8.0,
                same_stream_s=0.24, longest_s=0.17)  # fmt: skip
TRACES = {
    "gemm.fp32": rank_trace(ops=(PRODUCT,)),
    "gemm.unaligned": rank_trace(ops=(ODD,)),
    "gemm.low_efficiency": rank_trace(gemms=(gemm(0.271),)),
    "attention.low_efficiency": rank_trace(attentions=(attention(0.271),)),
    "attention.unfused": rank_trace(
        ops=(
            row("aten::bmm", 0.3, shapes="bf16[32,128,64] bf16[32,64,128]", dtype="bf16", attainable_s=0.3),
            row("aten::_softmax", 0.213, shapes=SCORES),
        )
    ),
    "convolution.low_efficiency": rank_trace(
        ops=(row("aten::cudnn_convolution", 0.513, attainable_s=0.1, bound="compute"),)
    ),
    "convolution.transposes": rank_trace(kernels=(row("void cudnn::ops::nchwToNhwcKernel<float>", 0.057),)),
    "optimizer.unfused": rank_trace(ops=(optimizer("mul", 0.11), optimizer("add", 0.13))),
    "fusion.elementwise": rank_trace(ops=(pointwise("mul", 0.11), pointwise("gelu", 0.13))),
    "fusion.norm": rank_trace(ops=(pointwise("pow", 0.021), pointwise("rsqrt", 0.02))),
    "fusion.softmax": rank_trace(ops=(pointwise("exp", 0.031), pointwise("sum", 0.02))),
    "dtype.conversions": rank_trace(ops=(row("aten::copy_", 0.053, calls=9.0, shapes="bf16[1024] fp32[1024]"),)),
    "indexing.slow_updates": rank_trace(ops=(row("aten::embedding_dense_backward", 0.113, attainable_s=0.01),)),
    "fill.zeros": rank_trace(ops=(row("aten::_foreach_zero_", 0.023),)),
    "checkpointing.recompute": rank_trace(recompute=Recompute(ops=11, seconds=0.23, flops=1.0)),
    "launch.cpu_bound": rank_trace(launches=launches(starved_s=0.37)),
    "cpu.dispatch": rank_trace(device="cpu", launches=None, time_split=split(**{"memory-bound": 0.63, PYTHON: 0.37})),
    "idle.long_gaps": rank_trace(gaps=(gap(0.217),)),
    "sync.item": rank_trace(host_calls=(call("wait", "cudaStreamSynchronize", 3, 0.103, "aten::item"),)),
    "sync.device_allocation": rank_trace(host_calls=(call("allocation", "cudaMalloc", 7, 0.053),)),
    "data.starved": rank_trace(host_calls=(call("data", "enumerate(DataLoader)", 1, 0.31),)),
    "launch.short_kernels": rank_trace(
        launches=launches(short_kernels=10_000.0, short_s=0.031, short_gap_s=0.21, kernels=12_000.0)
    ),
    "launch.latency": rank_trace(launches=launches(queued_idle=QUEUED)),
    "launch.blocked": rank_trace(launches=launches(queued_idle=QUEUED)),
    "devices.in_turn": rank_trace(devices=(device(0, 0.437, critical=True, beside_s=0.391), device(1, 0.391))),
    "comm.exposed": rank_trace(overlap=EXPOSED, collectives=(collective("allreduce", 0.123),)),
    "comm.slow_link": rank_trace(collectives=(collective("allreduce", 0.2, bus_bandwidth=1e10),)),
    "comm.small_messages": rank_trace(
        collectives=(collective("allreduce", 0.123, message_bytes=4096, calls=211.0),), overlap=EXPOSED
    ),
    "copy.pageable": rank_trace(copies=(copy("HtoD", 0.053, pageable=True),)),
    "copy.exposed": rank_trace(copies=(copy("HtoD", 0.153, pageable=False),)),
    "limit.above_roof": rank_trace(coverage=coverage(above_roof_s=0.113)),
    "limit.unlinked_kernels": rank_trace(coverage=coverage(linked_s=0.713)),
    "limit.unmodeled_kernels": rank_trace(coverage=coverage(flops_s=0.613)),
}
ACCOUNTS = {
    "memory.activations": {},
    "memory.growth": {
        "growth": (MemoryGrowth(bytes_per_step=3 * MIB, blocks_per_step=1.0, steps=5, category="input"),)
    },
    "memory.request_failed": {"failed_request": FailedRequest(bytes=101 * MIB, message="")},
}


def show(name: str, value: float) -> Iterator[str]:
    """The ways in which a figure may be written; none of what the sentences leave to be worked out."""
    if name.endswith("_flops_per_s"):
        yield units.format_flop_rate(value)
    elif name.endswith("bandwidth"):
        yield units.format_bandwidth(value)
    elif name.endswith("_s"):
        yield units.format_seconds(value)
    elif name.endswith("bytes"):
        yield units.format_bytes(value)
    elif name == "efficiency" or name.endswith("share"):
        yield from (units.format_percent(value, 0), units.format_percent(value))
    else:
        yield f"{value:,.0f}"


def check(finding: Finding) -> None:
    said = f"{finding.title}; {finding.evidence}; {finding.action}"
    assert finding.figures
    for name, value in finding.figures.items():
        assert any(text in said for text in show(name, value)), (name, value, said)


@pytest.mark.parametrize("finding_id", TRACES)
def test_of_a_trace(finding_id: str) -> None:
    trace: RankTrace = msgspec.structs.replace(TRACES[finding_id], ceilings=ceilings())
    (finding,) = (each for each in collect_trace_findings((trace,), None, None) if each.id == finding_id)
    check(finding)


@pytest.mark.parametrize("finding_id", ACCOUNTS)
def test_of_memory(finding_id: str) -> None:
    shares = (MemoryShare(category="activation", bytes=413 * MIB), MemoryShare(category="input", bytes=587 * MIB))
    account = MemoryAccount(
        peak_bytes=1000 * MIB,
        peak_phase="backward",
        source="test",
        categories=shares,
        device="cuda:0",
        **ACCOUNTS[finding_id],
    )
    (finding,) = (each for each in collect_memory_findings(account) if each.id == finding_id)
    check(finding)


@pytest.mark.parametrize(("seconds", "shares"), [(0.87, ["87.0 %"]), (1.7, [])])
def test_work_that_takes_more_than_the_step_has_no_share_of_it(seconds: float, shares: list[str]) -> None:
    trace = rank_trace(ops=(msgspec.structs.replace(PRODUCT, seconds=seconds),))
    (finding,) = (found for found in collect_trace_findings([trace], None, None) if found.id == "gemm.fp32")
    told = list_figures(finding.evidence)
    assert units.format_seconds(seconds) in told
    assert [figure for figure in told if figure.endswith("%")] == shares
