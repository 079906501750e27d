"""A training loop traced on a real GPU and analysed: links, coverage and the parts of its time."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from perfkit.analysis.pipeline.trace_analysis import analyze_traces

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.json.gz"
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, device="cuda")
    model = nn.Sequential(layer, nn.LayerNorm(512, device="cuda"), nn.Linear(512, 1000, device="cuda"))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(16, 256, 512, device="cuda")
    target = torch.randint(0, 1000, (16 * 256,), device="cuda")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        schedule=schedule(wait=1, warmup=2, active=3),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(6):
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()  # a device that lags has kernels in the trace that were launched before it
            profiler.step()
    return path


def test_an_eager_trace_is_explained(trace: Path) -> None:
    found = analyze_traces([str(trace)]).traces[0]
    coverage = found.coverage
    assert len(found.steps) == 3
    assert coverage.linked_s >= 0.99 * coverage.kernel_s
    assert coverage.bytes_s >= 0.99 * coverage.kernel_s
    assert coverage.flops_s >= 0.97 * coverage.kernel_s
    assert sum(part.share for part in found.time_split) == pytest.approx(1)
    assert {row.phase for row in found.kernels} >= {"forward", "backward", "optimizer"}


def test_products_under_autocast_run_on_matrix_units_in_bf16(trace: Path) -> None:
    found = analyze_traces([str(trace)]).traces[0]
    products = [row for row in found.kernels if row.op in ("aten::mm", "aten::addmm") and row.flops]
    assert products
    assert max(products, key=lambda row: row.seconds).dtype == "bf16"
